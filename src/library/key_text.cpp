#include "library/key_text.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace artesian {
namespace {

constexpr std::string_view hex = "hex:";

}  // namespace

std::string key_text(std::span<const std::byte> key) {
  std::string text(reinterpret_cast<const char*>(key.data()), key.size());
  const auto plain = [](char c) { return c > ' ' && c < 127; };
  if (std::ranges::all_of(text, plain) && !text.starts_with(hex)) return text;
  text = hex;
  for (const std::byte value : key) text += fmt::format("{:02x}", static_cast<unsigned>(value));
  return text;
}

Result<std::vector<std::byte>> parse_key_text(const std::string& text) {
  std::vector<std::byte> key;
  if (!text.starts_with(hex)) {
    const auto bytes = std::as_bytes(std::span(text));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  }
  for (std::size_t at = hex.size(); at < text.size(); at += 2) {
    unsigned value = 0;
    const char* end = text.data() + std::min(at + 2, text.size());
    const auto [stop, error] = std::from_chars(text.data() + at, end, value, 16);
    if (error != std::errc() || stop != text.data() + at + 2) {
      return fail(Code::invalid, "'{}' is not hex: and pairs of digits", text);
    }
    key.push_back(static_cast<std::byte>(value));
  }
  return key;
}

}  // namespace artesian
