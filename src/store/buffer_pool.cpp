#include "store/buffer_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace artesian {

BufferPool::Buffer::Buffer(Buffer&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), memory_(std::move(other.memory_)), bytes_(other.bytes_) {}

BufferPool::Buffer& BufferPool::Buffer::operator=(Buffer&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void BufferPool::Buffer::give_back() {
  if (pool_ != nullptr) std::exchange(pool_, nullptr)->keep(std::move(memory_));
}

BufferPool::Buffer BufferPool::take(std::uint64_t bytes, std::uint64_t limit) {
  Buffer buffer;
  const std::uint64_t size = std::max(std::bit_ceil(bytes), std::uint64_t{1} << least_shift);
  const auto index = static_cast<std::size_t>(std::countr_zero(size)) - least_shift;
  if (index >= classes) return buffer;
  auto& kept = kept_[index];
  if (kept.empty()) {
    if (bytes_ + size > limit) trim(size, limit);
    if (bytes_ + size > limit) return buffer;
    auto memory = Arena::reserve(size);
    if (!memory) return buffer;
    kept.push_back(std::move(*memory));
    bytes_ += size;
  }
  buffer.memory_ = std::move(kept.back());
  kept.pop_back();
  buffer.pool_ = this;
  buffer.bytes_ = bytes;
  return buffer;
}

void BufferPool::keep(Arena memory) {
  const auto index = static_cast<std::size_t>(std::countr_zero(memory.size())) - least_shift;
  kept_[index].push_back(std::move(memory));
}

// The largest go first, until `bytes` more would fit.
void BufferPool::trim(std::uint64_t bytes, std::uint64_t limit) {
  for (std::size_t i = classes; i-- > 0;) {
    while (!kept_[i].empty() && bytes_ + bytes > limit) {
      bytes_ -= kept_[i].back().size();
      kept_[i].pop_back();
    }
  }
}

}  // namespace artesian
