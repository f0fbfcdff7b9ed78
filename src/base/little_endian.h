// Numbers at offsets of a byte range, little-endian, as everything on flash is. The caller has checked the bounds.
#pragma once

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

namespace artesian {

static_assert(std::endian::native == std::endian::little, "a big-endian host would have to swap here");

template <typename T>
T load_le(std::span<const std::byte> bytes, std::size_t at) {
  static_assert(std::is_trivially_copyable_v<T>);
  assert(at + sizeof(T) <= bytes.size());
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <typename T>
void store_le(std::span<std::byte> bytes, std::size_t at, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  assert(at + sizeof(T) <= bytes.size());
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

}  // namespace artesian
