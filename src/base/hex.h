// Bytes as pairs of hexadecimal digits. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace artesian {

std::string to_hex(std::span<const std::byte> bytes);  // lower case
// Fills `out`; false unless there are exactly so many pairs of digits.
bool from_hex(std::string_view digits, std::span<std::byte> out);

}  // namespace artesian
