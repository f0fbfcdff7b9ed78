// Files that commands about simulated drives read.
#pragma once

#include <string>

#include "base/result.h"
#include "nand/workload.h"

namespace artesian::cli {

Result<std::string> read_text(const std::string& path);  // at most 16 MiB
Result<nand::Workload> load_workload(const std::string& path);

}  // namespace artesian::cli
