// A snapshot of one door as people and programs read it.
#pragma once

#include <string>

#include "base/result.h"
#include "stream/stats_file.h"

namespace artesian::cli {

std::string stat_table(int run_pid, const Result<StatsSnapshot>& stats);  // lines, each ended
std::string stat_json(int run_pid, const Result<StatsSnapshot>& stats);   // one object

}  // namespace artesian::cli
