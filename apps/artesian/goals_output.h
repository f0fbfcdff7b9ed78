// How a benchmark ends: what it measured and each figure beside its goal, for people or as one JSON object, and the
// exit code that says whether all were met.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "bench/goals.h"

namespace artesian::cli {

struct GoalsOutput {
  std::string_view section;        // of goals.json
  std::string_view measured_name;  // of the JSON object's members
  std::string_view goals_name;
  bool json = false, check = false;                     // check: a missed goal is exit code 1
  std::function<bool(const bench::Goal&)> wanted = {};  // of the section's; none given: all
};

// `text` and `measured_json` are what was measured.
Result<int> print_beside_goals(const GoalsOutput& output, std::span<const bench::GoalFigure> figures,
                               std::string_view text, std::string_view measured_json);

}  // namespace artesian::cli
