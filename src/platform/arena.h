// A reservation of anonymous memory: addresses at once, pages when they are first touched, given back range by range.
// Ranges are byte offsets from the start. Threads: reserve and destroy by one owner; ranges may be used from any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace artesian {

class Arena {
 public:
  static Result<Arena> reserve(std::uint64_t bytes);
  Arena() = default;
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  ~Arena();

  std::byte* data() const { return data_; }
  std::uint64_t size() const { return size_; }
  std::span<std::byte> span() const { return {data_, size_}; }

  void advise_huge(std::uint64_t offset, std::uint64_t bytes);  // large pages, best effort
  // Whole pages inside the range go back and read as zero. Never of memory that is registered with a Device: the drive
  // would go on filling the pages that were given back, and what it read would be seen nowhere.
  void release(std::uint64_t offset, std::uint64_t bytes);

 private:
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
};

}  // namespace artesian
