// Files that commands about simulated drives read, and the command that advises one.
#pragma once

#include <string>

#include "base/result.h"
#include "commands.h"
#include "nand/workload.h"

namespace artesian::cli {

Result<std::string> read_text(const std::string& path);  // at most 16 MiB
Result<nand::Workload> load_workload(const std::string& path);

Action setup_advise(CLI::App& command, const Context& context);

}  // namespace artesian::cli
