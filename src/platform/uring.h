// io_uring through liburing, as a value that cleans up after itself. Not thread safe: callers serialise.
#pragma once

#include <liburing.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"

namespace artesian {

class Uring {
 public:
  // Code::rejected with the reason where the kernel or a seccomp filter refuses io_uring.
  static Result<std::unique_ptr<Uring>> create(unsigned entries);
  Uring(const Uring&) = delete;
  Uring& operator=(const Uring&) = delete;
  ~Uring();

  // False when the submission queue is full.
  bool read(int fd, std::span<std::byte> out, std::uint64_t offset, std::uint64_t user_data);
  bool write(int fd, std::span<const std::byte> bytes, std::uint64_t offset, std::uint64_t user_data);

  // Hands over what was queued; waits for one completion when told to, until `timeout_ns` has passed.
  Status submit(bool wait_for_one, std::uint64_t timeout_ns);

  struct Done {
    std::uint64_t user_data = 0;
    std::int32_t result = 0;  // bytes, or -errno
  };
  std::size_t reap(std::span<Done> out);

 private:
  Uring() = default;
  io_uring ring_{};
  bool open_ = false;
};

}  // namespace artesian
