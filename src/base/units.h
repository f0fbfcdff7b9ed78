// Sizes as people write and read them. "8G", "900M", "1.5GiB", "4096" go in (K, M, G, T are 2^10, 2^20, 2^30, 2^40);
// "1.43 GB" (10^9, for reports) or "900 MiB" (2^20, for limits) comes out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace artesian {

constexpr std::uint64_t KiB = 1ULL << 10;
constexpr std::uint64_t MiB = 1ULL << 20;
constexpr std::uint64_t GiB = 1ULL << 30;
constexpr std::uint64_t TiB = 1ULL << 40;

// Accepts digits with an optional fraction and an optional unit K|M|G|T, optionally followed by B or iB. Code::invalid
// otherwise.
Result<std::uint64_t> parse_size(std::string_view text);

std::string format_bytes(std::uint64_t bytes);     // decimal: "1.43 GB"
std::string format_size(std::uint64_t bytes);      // binary: "900.0 MiB"
std::string format_rate(double bytes_per_second);  // decimal: "1.39 GB/s"

constexpr std::uint64_t align_down(std::uint64_t value, std::uint64_t alignment) {
  return value / alignment * alignment;
}
constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace artesian
