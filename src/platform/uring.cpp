#include "platform/uring.h"

#include <liburing.h>
#include <linux/nvme_ioctl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

namespace artesian {
namespace {

constexpr std::size_t piece_bytes = 1ULL << 30;  // the kernel's limit for one registered buffer
constexpr unsigned piece_count = 256;

std::span<const std::byte> as_bytes(const iovec& vector) {
  return {static_cast<const std::byte*>(vector.iov_base), vector.iov_len};
}

bool inside(std::span<const std::byte> part, std::span<const std::byte> whole) {
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

}  // namespace

void Uring::Close::operator()(io_uring* ring) const {
  ::io_uring_queue_exit(ring);
  delete ring;
}

struct Uring::WakeUp {
  explicit WakeUp(int event) : fd(event) {}
  WakeUp(const WakeUp&) = delete;
  WakeUp& operator=(const WakeUp&) = delete;
  ~WakeUp() { ::close(fd); }
  int fd;
};

Uring::Uring(std::unique_ptr<io_uring, Close> ring) : ring_(std::move(ring)) {}
Uring::Uring(Uring&&) noexcept = default;
Uring& Uring::operator=(Uring&&) noexcept = default;
Uring::~Uring() = default;

Result<Uring> Uring::open(unsigned entries, bool commands) {
  auto memory = std::make_unique<io_uring>();
  io_uring_params params{};
  params.flags = IORING_SETUP_CLAMP | (commands ? IORING_SETUP_SQE128 | IORING_SETUP_CQE32 : 0U);
  if (const int error = ::io_uring_queue_init_params(entries, memory.get(), &params); error != 0) {
    return fail(Code::rejected, "io_uring cannot be set up: {}", ::strerror(-error));
  }
  Uring ring(std::unique_ptr<io_uring, Close>(memory.release()));
  const auto free_probe = [](io_uring_probe* probe) { ::io_uring_free_probe(probe); };
  const std::unique_ptr<io_uring_probe, decltype(free_probe)> probe(::io_uring_get_probe_ring(ring.ring_.get()));
  // Without EXT_ARG a wait with a timeout would take a request of its own in the ring.
  if (probe == nullptr || !::io_uring_opcode_supported(probe.get(), IORING_OP_READ) ||
      (params.features & IORING_FEAT_EXT_ARG) == 0 || (params.features & IORING_FEAT_NODROP) == 0) {
    return fail(Code::rejected, "io_uring of this kernel is too old (5.11 is needed)");
  }
  return ring;
}

bool Uring::register_files(std::span<const int> fds) {
  files_registered_ = ::io_uring_register_files(ring_.get(), fds.data(), static_cast<unsigned>(fds.size())) == 0;
  return files_registered_;
}

bool Uring::register_memory(std::span<std::byte> memory) {
  if (memory.empty()) return false;
  if (!pieces_ready_) {
    if (::io_uring_register_buffers_sparse(ring_.get(), piece_count) != 0) return false;
    pieces_ready_ = true;
    pieces_.resize(piece_count);
  }
  auto rest = memory;
  while (!rest.empty()) {
    const auto piece = rest.first(std::min(rest.size(), piece_bytes));
    const auto place = std::ranges::find_if(pieces_, [](const Piece& p) { return p.memory.empty(); });
    const iovec vector{piece.data(), piece.size()};
    const __u64 no_tag = 0;
    if (place == pieces_.end() ||
        ::io_uring_register_buffers_update_tag(ring_.get(), static_cast<unsigned>(place - pieces_.begin()), &vector,
                                               &no_tag, 1) != 1) {
      unregister_memory(memory);
      return false;
    }
    place->memory = piece;
    rest = rest.subspan(piece.size());
  }
  return true;
}

void Uring::unregister_memory(std::span<std::byte> memory) {
  for (unsigned i = 0; i < pieces_.size(); ++i) {
    if (pieces_[i].memory.empty() || !inside(pieces_[i].memory, memory)) continue;
    const iovec none{};
    const __u64 no_tag = 0;
    ::io_uring_register_buffers_update_tag(ring_.get(), i, &none, &no_tag, 1);
    pieces_[i].memory = {};
  }
}

int Uring::piece_of(std::span<const std::byte> memory) const {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    if (!pieces_[i].memory.empty() && inside(memory, pieces_[i].memory)) return static_cast<int>(i);
  }
  return -1;
}

void encode_uring(const UringIo& io, int piece, io_uring_sqe& entry) {
  if (io.command != nullptr) {
    ::io_uring_prep_rw(IORING_OP_URING_CMD, &entry, io.file, nullptr, 0, 0);
    entry.cmd_op = NVME_URING_CMD_IO;
    ::memcpy(entry.cmd, io.command, sizeof(*io.command));
    return;
  }
  const auto count = static_cast<unsigned>(io.memory.size());
  if (io.flush) {
    ::io_uring_prep_fsync(&entry, io.file, IORING_FSYNC_DATASYNC);
  } else if (count == 1) {
    const iovec& one = io.memory[0];
    const auto bytes = static_cast<unsigned>(one.iov_len);
    if (io.write) {
      ::io_uring_prep_write(&entry, io.file, one.iov_base, bytes, io.offset);
    } else {
      ::io_uring_prep_read(&entry, io.file, one.iov_base, bytes, io.offset);
    }
    if (piece >= 0) {
      entry.opcode = io.write ? IORING_OP_WRITE_FIXED : IORING_OP_READ_FIXED;
      entry.buf_index = static_cast<__u16>(piece);
    }
  } else if (io.write) {
    ::io_uring_prep_writev(&entry, io.file, io.memory.data(), count, io.offset);
  } else {
    ::io_uring_prep_readv(&entry, io.file, io.memory.data(), count, io.offset);
  }
  // This liburing has no name for it: the first byte of what other requests have as file_index.
  constexpr std::size_t write_stream = 44;
  static_assert(offsetof(io_uring_sqe, file_index) == write_stream);
  if (io.write) reinterpret_cast<std::uint8_t*>(&entry)[write_stream] = io.write_stream;
}

bool Uring::prepare(const UringIo& io) {
  io_uring_sqe* entry = ::io_uring_get_sqe(ring_.get());
  if (entry == nullptr) return false;
  encode_uring(io, io.memory.size() == 1 ? piece_of(as_bytes(io.memory[0])) : -1, *entry);
  if (files_registered_) entry->flags |= IOSQE_FIXED_FILE;
  ::io_uring_sqe_set_data64(entry, io.tag);
  return true;
}

bool Uring::prepare_wake() {
  if (wake_ == nullptr) {
    const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) return false;
    wake_ = std::make_unique<WakeUp>(fd);
  }
  io_uring_sqe* entry = ::io_uring_get_sqe(ring_.get());
  if (entry == nullptr) return false;
  eventfd_t count = 0;
  ::eventfd_read(wake_->fd, &count);  // whatever has come so far has been seen
  ::io_uring_prep_poll_add(entry, wake_->fd, POLLIN);
  ::io_uring_sqe_set_data64(entry, wake_tag);
  return true;
}

void Uring::wake() const {
  if (wake_ != nullptr) ::eventfd_write(wake_->fd, 1);
}

unsigned Uring::prepared() const {
  return ::io_uring_sq_ready(ring_.get());
}

int Uring::submit(bool wait, std::optional<Nanos> timeout) {
  int result = 0;
  if (!wait) {
    result = ::io_uring_submit(ring_.get());
  } else if (!timeout) {
    result = ::io_uring_submit_and_wait(ring_.get(), 1);
  } else {
    const auto left = std::max<std::int64_t>(timeout->count(), 0);
    __kernel_timespec limit{};
    limit.tv_sec = left / 1'000'000'000;
    limit.tv_nsec = left % 1'000'000'000;
    io_uring_cqe* first = nullptr;
    result = ::io_uring_submit_and_wait_timeout(ring_.get(), &first, 1, &limit, nullptr);
  }
  return result < 0 ? result : 0;
}

void Uring::wait_only() {
  io_uring_cqe* first = nullptr;
  ::io_uring_wait_cqe(ring_.get(), &first);
}

std::size_t Uring::reap(std::span<UringDone> out) {
  std::size_t count = 0;
  io_uring_cqe* entry = nullptr;
  while (count < out.size() && ::io_uring_peek_cqe(ring_.get(), &entry) == 0) {
    out[count++] = {::io_uring_cqe_get_data64(entry), entry->res};
    ::io_uring_cqe_seen(ring_.get(), entry);
  }
  return count;
}

}  // namespace artesian
