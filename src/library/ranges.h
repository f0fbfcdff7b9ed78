// Which parts of a piece of memory are free: the first that is large enough is given. Units: bytes.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>

namespace artesian {

class Ranges {
 public:
  explicit Ranges(std::uint64_t bytes) { free_.emplace(0, bytes); }

  std::optional<std::uint64_t> take(std::uint64_t bytes) {
    for (auto range = free_.begin(); range != free_.end(); ++range) {
      const auto [offset, size] = *range;
      if (size < bytes) continue;
      free_.erase(range);
      if (size > bytes) free_.emplace(offset + bytes, size - bytes);
      return offset;
    }
    return std::nullopt;
  }

  void give_back(std::uint64_t offset, std::uint64_t bytes) {
    auto after = free_.lower_bound(offset);
    if (after != free_.end() && after->first == offset + bytes) {
      bytes += after->second;
      after = free_.erase(after);
    }
    if (after != free_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == offset) {
        before->second += bytes;
        return;
      }
    }
    free_.emplace(offset, bytes);
  }

 private:
  std::map<std::uint64_t, std::uint64_t> free_;  // by offset: sizes; neighbours are one
};

}  // namespace artesian
