// A Device on a simulated SSD: what the store, the loader and their tests run on in virtual time. Files lie one after
// the other on the drive. Bytes are kept by physical place, so whatever the translation layer does wrong shows in what
// is read.
//
// Threads: as Device; the clock is the caller's and may be moved by others between calls; wait() and flush() move it.
// What has to happen on the drive until now happens inside the calls. Ownership: the drive and its bytes are the
// device's.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "nand/drive.h"

namespace artesian::nand {

// What is known of a file's data, if anything.
struct FileTraits {
  double compress = 1;         // they shrink to so much less
  std::uint8_t partition = 0;  // of the drive's read cache
};

struct NandDeviceOptions {
  std::uint32_t queue_max = 4096;
  std::uint64_t seed = 1;
  bool writable = true;
  std::vector<FileTraits> files = {};  // by file; those that are missing: nothing is known
};

class NandDevice final : public Device {
 public:
  // With files of these sizes, empty. Code::invalid when they do not fit, or the drive is too large to be simulated.
  static Result<std::unique_ptr<NandDevice>> open(const Profile& profile, std::vector<std::uint64_t> file_bytes,
                                                  ManualClock& clock, NandDeviceOptions options = {});
  // Puts bytes into a file in no time and uncounted, as if they had always been there.
  Status preload(FileIndex file, std::uint64_t offset, std::span<const std::byte> bytes);

  const DeviceFacts& facts() const override { return facts_; }
  DeviceCounters counters() const override;
  Status submit(std::span<const IoRequest> requests) override;
  std::size_t poll(std::span<IoCompletion> out) override;
  std::size_t wait(std::span<IoCompletion> out, Nanos deadline) override;
  bool register_memory(std::span<std::byte> /*memory*/) override { return false; }
  Status discard(FileIndex file, std::uint64_t offset, std::uint64_t bytes) override;
  Status flush() override;

  // Power is lost now and comes back when the drive is ready; requests in flight never complete. What was completed and
  // flushed, or completed on a drive with power-loss protection, is there.
  void cut_power();
  // The file becomes shorter underneath; facts() go on saying what it was.
  void shrink(FileIndex file, std::uint64_t bytes);

  Drive& drive() { return drive_; }

 private:
  struct Pending {
    IoRequest request;
    std::uint64_t wanted = 0;         // bytes up to the end of the file
    std::vector<std::byte> gathered;  // of a request with pieces
  };

  NandDevice(const Profile& profile, std::vector<std::uint64_t> file_bytes, ManualClock& clock,
             NandDeviceOptions options);
  FileTraits traits(FileIndex file) const { return file < options_.files.size() ? options_.files[file] : FileTraits{}; }
  HostRequest begin(std::uint32_t slot, const IoRequest& request);
  void settle();  // all that happens until now
  void reap();
  IoCompletion finish(const Pending& pending, bool failed) const;
  std::size_t deliver(std::span<IoCompletion> out);

  ManualClock& clock_;
  NandDeviceOptions options_;
  DeviceFacts facts_;
  Drive drive_;
  std::vector<std::string> names_;
  std::vector<std::uint64_t> first_, bytes_now_;  // of each file: place on the drive, size
  std::vector<Pending> pending_;
  std::vector<std::uint32_t> free_;
  std::deque<IoCompletion> finished_;
  std::uint32_t outstanding_ = 0;
  bool flushed_ = false;
  DeviceCounters counters_;
  Nanos busy_since_{0};
};

}  // namespace artesian::nand
