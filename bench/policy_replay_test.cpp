#include "bench/policy_replay.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

namespace artesian::bench {
namespace {

const PolicyFigure& figure_of(const ReplayCase& run, std::string_view name) {
  return *std::ranges::find(run.policies, name, &PolicyFigure::name);
}

TEST(PolicyReplay, EverythingResidentMissesOnlyTheFirstUses) {
  const RouteTrace trace = flat_route_trace(2, 8, 2, 200, 1);
  const double cycles[] = {4};  // 8 slots of 2 used
  const auto cases = replay_trace(trace, cycles);
  ASSERT_TRUE(cases);
  for (const PolicyFigure& figure : cases->front().policies) {
    EXPECT_DOUBLE_EQ(figure.hit_percent, 100.0 * (1.0 - 16.0 / 800.0)) << figure.name;
    EXPECT_DOUBLE_EQ(figure.way_percent, 100.0);
  }
}

TEST(PolicyReplay, OptimumIsTheEndOfTheWayAndLruInTurnItsStart) {
  const RouteTrace trace = flat_route_trace(3, 32, 4, 300, 2);
  const double cycles[] = {0.5, 1.3, 3};
  const auto cases = replay_trace(trace, cycles);
  ASSERT_TRUE(cases);
  ASSERT_EQ(cases->size(), 3U);
  for (const ReplayCase& run : *cases) {
    EXPECT_DOUBLE_EQ(figure_of(run, "lru-in-turn").way_percent, 0.0);
    EXPECT_DOUBLE_EQ(figure_of(run, "lru").way_step_percent, 0.0);
    for (const PolicyFigure& figure : run.policies) {
      EXPECT_LE(figure.way_percent, 100.0 + 1e-9) << figure.name;
      EXPECT_GE(figure.bytes_missed_per_token, figure_of(run, "optimum").bytes_missed_per_token);
    }
  }
}

TEST(PolicyReplay, ImpossibleBudgetsAreRefused) {
  const RouteTrace trace = flat_route_trace(1, 8, 2, 10, 1);
  const double negative[] = {-1};
  EXPECT_EQ(replay_trace(trace, negative).error().code, Code::invalid);
}

TEST(PolicyReplay, WithoutTracesTheirGoalsAreMissed) {
  const auto report = replay_policies({.traces = {}, .cycles = {1}, .flat_steps = 100});
  ASSERT_TRUE(report);
  const auto table = set_beside(*goals_of("policy"), replay_figures(*report));
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_FALSE(table->all_met());
  EXPECT_NE(table->text().find("no folder of recorded routes was given"), std::string::npos);
  EXPECT_EQ(replay_policies({.traces = "/nowhere"}).error().code, Code::not_found);
}

TEST(PolicyReplay, FlatRoutesCostTheDefaultPolicyNothing) {
  const auto report = replay_policies({.traces = {}, .cycles = {0.5, 3}, .flat_steps = 1024});
  ASSERT_TRUE(report);
  const GoalFigure flat = replay_figures(*report).back();
  ASSERT_TRUE(flat.figure);
  EXPECT_LE(*flat.figure, 1.0);
  const auto json = nlohmann::json::parse(replay_json(*report));
  EXPECT_EQ(json["cases"].size(), 2U);
}

TEST(PolicyReplay, RecordedRoutesMeetTheirGoals) {
  const char* folder = std::getenv("ARTESIAN_TRACES");
  if (folder == nullptr || *folder == '\0') GTEST_SKIP() << "ARTESIAN_TRACES is not set: no recorded routes";
  const auto report = replay_policies({.traces = folder, .flat_steps = 16});
  ASSERT_TRUE(report) << report.error().message;
  const auto table = set_beside(*goals_of("policy"), replay_figures(*report));
  ASSERT_TRUE(table);
  for (const GoalRow& row : table->rows) {
    if (row.goal.name == "policy.flat") continue;  // has its own test, with enough steps
    EXPECT_TRUE(row.met) << table->text();
  }
}

}  // namespace
}  // namespace artesian::bench
