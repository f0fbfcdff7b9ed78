// Anonymous memory that two processes have at once: one makes it and sends it through a Unix socket, the other takes
// it. It cannot be made smaller by either, so a process that uses what it was sent cannot be killed by the sender.
//
// Ownership: each unmaps its own; the memory goes with the last. Threads: the bytes are shared memory, whoever uses
// them orders the accesses.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"

namespace artesian {

class SharedMemory {
 public:
  static Result<SharedMemory> create(std::size_t bytes);

  // Sends it through a connected Unix socket, beside a message of a few bytes.
  Status send(int socket, std::span<const std::byte> message) const;
  // Takes the message, all of it, and the memory beside it; retry if nothing is there yet. invalid for a message
  // without memory, of another length, or beside memory that the sender could take away.
  static Result<SharedMemory> receive(int socket, std::span<std::byte> message);

  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  SharedMemory(int fd, std::span<std::byte> bytes) : fd_(fd), bytes_(bytes) {}
  static Result<SharedMemory> map(int fd);

  int fd_ = -1;
  std::span<std::byte> bytes_;
};

}  // namespace artesian
