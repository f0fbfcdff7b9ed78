#include "base/hex.h"

#include <fmt/format.h>

#include <charconv>
#include <iterator>

namespace artesian {

std::string to_hex(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) fmt::format_to(std::back_inserter(text), "{:02x}", static_cast<unsigned>(byte));
  return text;
}

bool from_hex(std::string_view digits, std::span<std::byte> out) {
  if (digits.size() != 2 * out.size()) return false;
  const char* at = digits.data();
  for (std::byte& byte : out) {
    unsigned value = 0;
    const auto [stop, error] = std::from_chars(at, at + 2, value, 16);
    if (error != std::errc() || stop != at + 2) return false;
    byte = static_cast<std::byte>(value);
    at += 2;
  }
  return true;
}

}  // namespace artesian
