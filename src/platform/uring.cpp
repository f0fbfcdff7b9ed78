#include "platform/uring.h"

#include <cerrno>
#include <cstring>

namespace artesian {

Result<std::unique_ptr<Uring>> Uring::create(unsigned entries) {
  std::unique_ptr<Uring> uring(new Uring);  // NOLINT: the constructor is private, make_unique cannot reach it
  const int error = io_uring_queue_init(entries, &uring->ring_, 0);
  if (error < 0) return fail(Code::rejected, "io_uring is not available: {}", std::strerror(-error));
  uring->open_ = true;
  return uring;
}

Uring::~Uring() {
  if (open_) io_uring_queue_exit(&ring_);
}

bool Uring::read(int fd, std::span<std::byte> out, std::uint64_t offset, std::uint64_t user_data) {
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  if (entry == nullptr) return false;
  io_uring_prep_read(entry, fd, out.data(), static_cast<unsigned>(out.size()), offset);
  io_uring_sqe_set_data64(entry, user_data);
  return true;
}

bool Uring::write(int fd, std::span<const std::byte> bytes, std::uint64_t offset, std::uint64_t user_data) {
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  if (entry == nullptr) return false;
  io_uring_prep_write(entry, fd, bytes.data(), static_cast<unsigned>(bytes.size()), offset);
  io_uring_sqe_set_data64(entry, user_data);
  return true;
}

Status Uring::submit(bool wait_for_one, std::uint64_t timeout_ns) {
  for (;;) {
    int result = 0;
    if (wait_for_one) {
      __kernel_timespec timeout{.tv_sec = static_cast<std::int64_t>(timeout_ns / 1'000'000'000U),
                                .tv_nsec = static_cast<std::int64_t>(timeout_ns % 1'000'000'000U)};
      io_uring_cqe* first = nullptr;
      result = io_uring_submit_and_wait_timeout(&ring_, &first, 1, &timeout, nullptr);
    } else {
      result = io_uring_submit(&ring_);
    }
    if (result >= 0 || result == -ETIME || result == -EAGAIN || result == -EBUSY) return {};
    if (result != -EINTR) return fail(Code::device_failed, "io_uring submit: {}", std::strerror(-result));
  }
}

std::size_t Uring::reap(std::span<Done> out) {
  std::size_t count = 0;
  io_uring_cqe* entry = nullptr;
  while (count < out.size() && io_uring_peek_cqe(&ring_, &entry) == 0) {
    out[count++] = {.user_data = io_uring_cqe_get_data64(entry), .result = entry->res};
    io_uring_cqe_seen(&ring_, entry);
  }
  return count;
}

}  // namespace artesian
