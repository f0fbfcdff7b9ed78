// A thin owner of one io_uring: prepare, submit, reap, and what can be registered with it.
//
// Threads: one caller at a time, but not always the same one: that is why none of the ring's single-issuer modes is
// used. Without IORING_SETUP_COOP_TASKRUN a completion reaches the ring at once even if the thread that submitted it is
// computing while another one waits. Ownership: destroying the ring does not wait for what is in flight; the owner of
// the buffers reaps first.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

struct io_uring;
struct io_uring_sqe;
struct nvme_uring_cmd;

namespace artesian {

struct UringIo {
  bool write = false;
  bool flush = false;  // fdatasync; no memory
  int file = 0;        // index in register_files' list if that succeeded, else a descriptor
  std::uint64_t offset = 0;
  std::span<const iovec> memory;  // must stay valid until it was submitted; the bytes until reaped
  std::uint64_t tag = 0;
  std::uint8_t write_stream = 0;            // of the block device, from 1 on; 0: none is named
  const nvme_uring_cmd* command = nullptr;  // instead of all but file and tag; the ring must be for commands
};

// The request as the kernel takes it, but for flags and tag. `piece`: of registered memory, -1: it lies in none. With a
// command, 128 bytes are written.
void encode_uring(const UringIo& io, int piece, io_uring_sqe& entry);

struct UringDone {
  std::uint64_t tag = 0;
  std::int32_t result = 0;  // bytes, or -errno; of a command 0, a status of the drive, or -errno
};

class Uring {
 public:
  // `rejected` with the reason where the kernel, a sysctl or a seccomp filter refuses it. With `commands` its requests
  // are of the size that commands need.
  static Result<Uring> open(unsigned entries, bool commands = false);
  Uring(Uring&&) noexcept;
  Uring& operator=(Uring&&) noexcept;
  ~Uring();

  bool register_files(std::span<const int> fds);

  // Pins the memory and lets the kernel map it once instead of with every I/O. All of it becomes resident now. False
  // if RLIMIT_MEMLOCK, the number of pieces (1 GiB each) or the kernel does not allow it; nothing is registered then.
  bool register_memory(std::span<std::byte> memory);
  // The pieces that lie in this memory, after nothing is in flight to them.
  void unregister_memory(std::span<std::byte> memory);

  // False if the submission queue is full.
  bool prepare(const UringIo& io);
  unsigned prepared() const;

  // One system call: submits what is prepared and, if `wait`, returns when a completion is there or `timeout` has
  // passed (none: without limit). 0, or -errno; -EINTR, -EAGAIN, -EBUSY and -ETIME are no failures.
  int submit(bool wait, std::optional<Nanos> timeout = std::nullopt);
  // Waits for a completion without submitting anything.
  void wait_only();

  std::size_t reap(std::span<UringDone> out);

  // A request that wake() completes: prepared like any other, with this tag, and again after each time.
  static constexpr std::uint64_t wake_tag = UINT64_MAX;
  bool prepare_wake();
  void wake() const;  // from any thread

 private:
  struct Close {
    void operator()(io_uring* ring) const;
  };
  struct Piece {
    std::span<std::byte> memory;  // empty: the place is free
  };
  explicit Uring(std::unique_ptr<io_uring, Close> ring);
  int piece_of(std::span<const std::byte> memory) const;

  std::unique_ptr<io_uring, Close> ring_;
  struct WakeUp;
  std::unique_ptr<WakeUp> wake_;  // made by the first prepare_wake()
  bool files_registered_ = false;
  bool pieces_ready_ = false;
  std::vector<Piece> pieces_;
};

}  // namespace artesian
