// Memory for records on their way: aligned buffers in sizes of powers of two, kept for reuse, bounded together.
//
// Threads: the owner's lock guards take() and the return of buffers. Ownership: a Buffer gives itself back; the pool
// lives longer than its buffers.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "platform/arena.h"

namespace artesian {

class BufferPool {
 public:
  class Buffer {
   public:
    Buffer() = default;
    Buffer(Buffer&& other) noexcept;
    Buffer& operator=(Buffer&& other) noexcept;
    ~Buffer() { give_back(); }

    std::span<std::byte> span() const { return memory_.span().first(bytes_); }
    explicit operator bool() const { return pool_ != nullptr; }
    void shrink(std::uint64_t bytes) { bytes_ = bytes; }  // of what is to be seen
    void give_back();

   private:
    friend class BufferPool;
    BufferPool* pool_ = nullptr;
    Arena memory_;
    std::uint64_t bytes_ = 0;
  };

  explicit BufferPool(std::uint64_t bytes_max) : bytes_max_(bytes_max) {}

  // Exactly `bytes` to be seen of it. Empty when that would pass the limit, or the system has no memory.
  Buffer take(std::uint64_t bytes) { return take(bytes, bytes_max_); }
  // The same past the limit, for the few pages without which nothing goes on.
  Buffer take_small(std::uint64_t bytes) { return take(bytes, UINT64_MAX / 2); }
  std::uint64_t bytes() const { return bytes_; }  // in use and kept

 private:
  static constexpr unsigned least_shift = 13;  // 8 KiB: a header page and a tail page
  static constexpr unsigned classes = 17;      // up to 512 MiB

  Buffer take(std::uint64_t bytes, std::uint64_t limit);
  void keep(Arena memory);
  void trim(std::uint64_t bytes, std::uint64_t limit);

  std::uint64_t bytes_max_;
  std::uint64_t bytes_ = 0;
  std::array<std::vector<Arena>, classes> kept_;
};

}  // namespace artesian
