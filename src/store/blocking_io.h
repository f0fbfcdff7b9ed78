// A Device used one step after the other, for opening a store: nothing else may use the device meanwhile. What fails is
// tried once more.
//
// Threads: one. Ownership: the device is the caller's.
#pragma once

#include <span>
#include <vector>

#include "device/device.h"
#include "platform/arena.h"

namespace artesian {

class BlockingIo {
 public:
  struct Job {
    FileIndex file = 0;
    std::uint64_t offset = 0;
    std::span<std::byte> buffer;
    bool good = false;  // all of it is there
    Error error{};      // why not
  };

  explicit BlockingIo(Device& device) : device_(device) {}

  // All jobs, many at once; each says how it ended.
  void read(std::span<Job> jobs) { run(IoOp::read, jobs); }
  Status read(FileIndex file, std::uint64_t offset, std::span<std::byte> buffer);
  Status write(FileIndex file, std::uint64_t offset, std::span<std::byte> buffer);
  Status flush(FileIndex file);

 private:
  void run(IoOp op, std::span<Job> jobs);
  void run_once(IoOp op, std::span<Job*> jobs);
  Status one(IoOp op, Job job);

  Device& device_;
};

}  // namespace artesian
