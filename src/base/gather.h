// Bytes that lie in several pieces of memory, as if they were one range. Pure; nothing is owned.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>

#include "base/crc32c.h"

namespace artesian {

template <typename Byte>
using Pieces = std::span<const std::span<Byte>>;

inline std::uint64_t bytes_of(Pieces<std::byte> pieces) {
  std::uint64_t sum = 0;
  for (const auto& piece : pieces) sum += piece.size();
  return sum;
}
inline std::uint64_t bytes_of(Pieces<const std::byte> pieces) {
  std::uint64_t sum = 0;
  for (const auto& piece : pieces) sum += piece.size();
  return sum;
}

// Calls `use` with each contiguous part of [from, from + bytes).
template <typename Byte, typename Use>
void for_each_part(Pieces<Byte> pieces, std::uint64_t from, std::uint64_t bytes, Use use) {
  for (const auto& piece : pieces) {
    if (bytes == 0) return;
    if (from >= piece.size()) {
      from -= piece.size();
      continue;
    }
    const auto part = piece.subspan(from, std::min<std::uint64_t>(bytes, piece.size() - from));
    use(part);
    bytes -= part.size();
    from = 0;
  }
}

template <typename Byte>
std::uint32_t crc32c_of(Pieces<Byte> pieces, std::uint64_t from, std::uint64_t bytes) {
  std::uint32_t crc = 0;
  for_each_part(pieces, from, bytes, [&](auto part) { crc = crc32c(part, crc); });
  return crc;
}

template <typename Byte>
void copy_out(Pieces<Byte> pieces, std::uint64_t from, std::span<std::byte> to) {
  for_each_part(pieces, from, to.size(), [&](auto part) {
    std::memcpy(to.data(), part.data(), part.size());
    to = to.subspan(part.size());
  });
}

inline void copy_in(std::span<const std::byte> from, Pieces<std::byte> pieces, std::uint64_t at) {
  for_each_part(pieces, at, from.size(), [&](std::span<std::byte> part) {
    std::memcpy(part.data(), from.data(), part.size());
    from = from.subspan(part.size());
  });
}

}  // namespace artesian
