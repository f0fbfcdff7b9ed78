// Files of API keys, one a line.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace artesian::cli {

// At least one; invalid where there is none.
Result<std::vector<std::string>> read_key_file(const std::string& path);

}  // namespace artesian::cli
