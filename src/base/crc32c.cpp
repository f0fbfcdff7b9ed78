#include "base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace artesian {

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t so_far) {
  constexpr std::size_t step = std::size_t{1} << 30;  // the library counts in int
  std::uint32_t crc = ~so_far;
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), step));
    // It only reads; its interface is older than const.
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(part.data()));
    crc = crc32_iscsi(data, static_cast<int>(part.size()), crc);
    bytes = bytes.subspan(part.size());
  }
  return ~crc;
}

}  // namespace artesian
