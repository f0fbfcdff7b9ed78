// Keys as people read and write them: as they are where they are plain text, else "hex:" and pairs of digits. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace artesian {

std::string key_text(std::span<const std::byte> key);
// invalid for "hex:" and what is no pairs of digits.
Result<std::vector<std::byte>> parse_key_text(const std::string& text);

}  // namespace artesian
