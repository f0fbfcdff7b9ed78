#include "library/key_text.h"

#include <algorithm>
#include <string_view>

#include "base/hex.h"

namespace artesian {
namespace {

constexpr std::string_view hex = "hex:";

}  // namespace

std::string key_text(std::span<const std::byte> key) {
  std::string text(reinterpret_cast<const char*>(key.data()), key.size());
  const auto plain = [](char c) { return c > ' ' && c < 127; };
  if (std::ranges::all_of(text, plain) && !text.starts_with(hex)) return text;
  return std::string(hex) + to_hex(key);
}

Result<std::vector<std::byte>> parse_key_text(const std::string& text) {
  std::vector<std::byte> key;
  if (!text.starts_with(hex)) {
    const auto bytes = std::as_bytes(std::span(text));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  }
  const std::string_view digits = std::string_view(text).substr(hex.size());
  key.resize(digits.size() / 2);
  if (!from_hex(digits, key)) return fail(Code::invalid, "'{}' is not hex: and pairs of digits", text);
  return key;
}

}  // namespace artesian
