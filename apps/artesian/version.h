// What was built: for --version, and for reports of measurements.
#pragma once

#include <string>

namespace artesian::cli {

std::string version();  // "0.1.0, commit 1a2b3c4", with "-dirty" where the tree had changes

}  // namespace artesian::cli
