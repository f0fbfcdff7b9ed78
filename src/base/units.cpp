#include "base/units.h"

#include <charconv>
#include <cmath>

namespace artesian {
namespace {

std::string scaled(double value, double step, const char* const* units, int count) {
  int unit = 0;
  while (value >= step && unit + 1 < count) {
    value /= step;
    ++unit;
  }
  if (unit == 0) return fmt::format("{:.0f} {}", value, units[0]);
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : 1, units[unit]);
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  const std::string_view whole = text;
  const auto bad = [&] {
    return fail(Code::invalid, "'{}' is not a size; write a number with K, M, G or T, for example 8G or 900M", whole);
  };
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number) || number < 0) return bad();
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  double factor = 1;
  if (!text.empty()) {
    constexpr std::string_view letters = "KMGT";
    const char letter = static_cast<char>(text[0] & ~0x20);
    const auto power = letters.find(letter);
    if (power != std::string_view::npos) {
      factor = std::pow(1024.0, static_cast<double>(power + 1));
      text.remove_prefix(1);
      if (text == "iB" || text == "B") text = {};
    } else if (text == "B") {
      text = {};
    }
    if (!text.empty()) return bad();
  }
  const double bytes = number * factor;
  if (bytes >= 9.2e18) return bad();
  return static_cast<std::uint64_t>(std::llround(bytes));
}

std::string format_bytes(std::uint64_t bytes) {
  static constexpr const char* units[] = {"B", "kB", "MB", "GB", "TB"};
  return scaled(static_cast<double>(bytes), 1000, units, 5);
}

std::string format_size(std::uint64_t bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  return scaled(static_cast<double>(bytes), 1024, units, 5);
}

std::string format_rate(double bytes_per_second) {
  static constexpr const char* units[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  return scaled(bytes_per_second, 1000, units, 5);
}

}  // namespace artesian
