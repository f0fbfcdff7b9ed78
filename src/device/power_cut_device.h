// A drive with a volatile write cache, in memory: what was written is read back at once, but only a flush makes it
// last. cut() is the moment at which the power goes: of what was not flushed, a seed says write by write what is there
// afterwards: all of it, nothing, or a part. For tests of everything that says it survives that.
//
// Threads: as Device. Ownership: the bytes are the device's.
#pragma once

#include <deque>
#include <random>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/memory_device.h"
#include "device/request_queue.h"

namespace artesian {

class PowerCutDevice final : public Device {
 public:
  using Content = std::vector<std::vector<std::byte>>;

  // The power goes before the write number `cut_at` (from 1; 0: never): it and everything after it fails.
  explicit PowerCutDevice(Content files, std::uint64_t cut_at = 0, MemoryDeviceOptions options = {});

  const DeviceFacts& facts() const override { return facts_; }
  DeviceCounters counters() const override;
  Status submit(std::span<const IoRequest> requests) override;
  std::size_t poll(std::span<IoCompletion> out) override;
  std::size_t wait(std::span<IoCompletion> out, Nanos /*deadline*/) override { return poll(out); }
  bool register_memory(std::span<std::byte> /*memory*/) override { return false; }
  Status discard(FileIndex file, std::uint64_t offset, std::uint64_t bytes) override;
  Status flush() override;

  // The file becomes shorter underneath.
  void shrink(FileIndex file, std::uint64_t bytes) { now_[file].resize(bytes); }

  bool is_cut() const { return cut_; }
  // What the files hold when the power is back. Each unflushed write is decided for by itself, in its order.
  Content after_cut(std::uint64_t seed) const;

 private:
  struct Unflushed {
    FileIndex file = 0;
    std::uint64_t offset = 0;
    std::vector<std::byte> bytes;
  };

  IoCompletion serve(const IoRequest& request);
  void write(const IoRequest& request);
  void make_durable(std::uint64_t writes);

  DeviceFacts facts_;
  std::vector<std::string> names_;
  Content now_, durable_;
  std::deque<Unflushed> unflushed_;
  std::uint64_t durable_writes_ = 0;  // those before unflushed_
  std::uint64_t cut_at_ = 0, writes_ = 0;
  bool cut_ = false;
  RequestQueue queue_;
  DeviceCounters counters_;
};

}  // namespace artesian
