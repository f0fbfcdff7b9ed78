// Runs the eviction policies over recorded and flat routes, without any I/O, and sets them beside the offline optimum.
// Every policy, and the optimum, has the same slots: partition_slots() of a budget in token cycles.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bench/goals.h"
#include "bench/route_trace.h"

namespace artesian::bench {

struct PolicyFigure {
  std::string name;  // of the registry, or "lru-in-turn" (textbook LRU, one expert after the other), or "optimum"
  double hit_percent = 0;
  double bytes_missed_per_token = 0;
  double way_percent = 0;       // from lru-in-turn (0) to the optimum (100), in bytes missed
  double way_step_percent = 0;  // the same from the registry's lru, which sees a step as a whole
};

struct ReplayCase {
  std::string trace;
  double cycles = 0;
  std::uint64_t budget_bytes = 0;
  std::vector<PolicyFigure> policies;  // the registry in its order, then lru-in-turn, then optimum
};

struct ReplayReport {
  std::vector<ReplayCase> cases;
  std::string traces_missing;  // why there are no recorded routes, else empty
};

struct ReplaySettings {
  std::filesystem::path traces;  // folder with *.route.csv (or one with expert-routes/ in it); empty: flat routes only
  std::vector<double> cycles = {0.5, 0.8, 1, 2, 3, 4};
  std::size_t flat_steps = 4096;
  std::uint64_t seed = 1;
};

// One trace at each budget.
Result<std::vector<ReplayCase>> replay_trace(const RouteTrace& trace, std::span<const double> cycles);

// All traces of the folder and a flat one.
Result<ReplayReport> replay_policies(const ReplaySettings& settings);

std::string replay_text(const ReplayReport& report);
std::string replay_json(const ReplayReport& report);

// For the goals of section "policy", of the policy named (the default when empty).
std::vector<GoalFigure> replay_figures(const ReplayReport& report, std::string_view policy = {});

}  // namespace artesian::bench
