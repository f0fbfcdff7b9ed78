// A Device whose files are bytes in memory, or are computed by a function. A request is done when it is polled for, not
// before, so that a test decides when. Threads: as Device. Ownership: the bytes are the device's.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/request_queue.h"

namespace artesian {

struct MemoryDeviceOptions {
  std::uint32_t queue_depth_max = 64;  // completions of one poll
  std::uint32_t queue_max = 4096;
  std::uint32_t alignment = 4096;
};

class MemoryDevice final : public Device {
 public:
  // Fills `out` with the bytes of `file` from `offset` on.
  using Generator = std::function<void(FileIndex file, std::uint64_t offset, std::span<std::byte> out)>;

  explicit MemoryDevice(std::vector<std::vector<std::byte>> files, MemoryDeviceOptions options = {});
  // Files of these sizes whose content is computed when it is read. They cannot be written.
  MemoryDevice(std::vector<std::uint64_t> file_bytes, Generator generator, MemoryDeviceOptions options = {});

  const DeviceFacts& facts() const override { return facts_; }
  DeviceCounters counters() const override;
  Status submit(std::span<const IoRequest> requests) override;
  std::size_t poll(std::span<IoCompletion> out) override;
  std::size_t wait(std::span<IoCompletion> out, Nanos /*deadline*/) override { return poll(out); }
  bool register_memory(std::span<std::byte> /*memory*/) override { return false; }
  Status discard(FileIndex file, std::uint64_t offset, std::uint64_t bytes) override;
  Status flush() override { return {}; }

  // The file becomes shorter underneath, as one of a file system may; facts() go on saying what it was.
  void shrink(FileIndex file, std::uint64_t bytes);

 private:
  IoCompletion serve(const IoRequest& request);

  DeviceFacts facts_;
  std::vector<std::string> names_;
  std::vector<std::vector<std::byte>> files_;
  std::vector<std::uint64_t> bytes_now_;
  Generator generator_;
  RequestQueue queue_;
  DeviceCounters counters_;
};

}  // namespace artesian
