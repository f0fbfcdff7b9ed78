// What `artesian bench weights` prints: every way that was run with its speeds, and every figure beside goal and limit.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "bench/goals.h"
#include "bench/weights_cases.h"
#include "bench/weights_runner.h"

namespace artesian::bench {

struct WeightsReport {
  std::string machine;  // one line
  RunnerSettings settings;
  Measurements measured;
  GoalTable goals;
};

// Figures of the cases beside their goals, and no others.
Result<GoalTable> weights_goals(std::span<const WeightsCase* const> cases, const Measurements& measured,
                                std::uint32_t tokens);

std::string weights_text(const WeightsReport& report);
std::string weights_json(const WeightsReport& report);
std::string weights_markdown(const WeightsReport& report);  // two tables

}  // namespace artesian::bench
