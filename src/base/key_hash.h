// The hash that a block is found under: 128 bits of namespace, epoch and full key, keyed with the store's secret. It
// finds a block and is never proof of one. All zero stands for "none" (a block without a parent).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace artesian {

struct KeyHash {
  std::uint64_t low = 0, high = 0;

  bool none() const { return low == 0 && high == 0; }
  auto operator<=>(const KeyHash&) const = default;
};

// For the standard's containers; the bits are uniformly distributed already.
struct KeyHashHash {
  std::size_t operator()(const KeyHash& key) const { return static_cast<std::size_t>(key.low); }
};

}  // namespace artesian
