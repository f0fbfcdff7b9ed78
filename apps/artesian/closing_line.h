// The one sentence that `artesian run` ends with.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "stream/stats_file.h"

namespace artesian::cli {

std::string closing_line(const Result<std::vector<StatsSnapshot>>& doors);

}  // namespace artesian::cli
