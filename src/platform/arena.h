// A reservation of anonymous memory: addresses at once, pages when they are first touched, given back range by range.
// Ranges are byte offsets from the start.
//
// Memory comes and goes by blocks: pages, or large pages where those were asked for (a large page of which a part was
// given back is not free: the kernel keeps all of it). commit() and release() keep the account; nothing checks that
// only committed ranges are used.
//
// Threads: one owner; what lies in the ranges may be used from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace artesian {

class Arena {
 public:
  enum class Pages : std::uint8_t { small, large };

  // Large pages are best effort; the account is kept as if there were some.
  static Result<Arena> reserve(std::uint64_t bytes, Pages pages = Pages::small);
  Arena() = default;
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  ~Arena();

  std::byte* data() const { return data_; }
  std::uint64_t size() const { return size_; }
  std::span<std::byte> span() const { return {data_, size_}; }

  // What using the range would take beyond what is committed.
  std::uint64_t commit_cost(std::uint64_t offset, std::uint64_t bytes) const;
  void commit(std::uint64_t offset, std::uint64_t bytes);
  std::uint64_t committed() const { return committed_; }

  // Whole blocks inside the range go back and read as zero; returns what became free of what was committed. Never of
  // memory that is registered with a Device: the drive would go on filling the pages that were given back, and what it
  // read would be seen nowhere.
  std::uint64_t release(std::uint64_t offset, std::uint64_t bytes);

 private:
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
  std::uint64_t block_ = 0;
  std::vector<bool> blocks_;  // committed ones; as long as the highest of them needs
  std::uint64_t committed_ = 0;
};

}  // namespace artesian
