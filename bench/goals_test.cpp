#include "bench/goals.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace artesian::bench {
namespace {

Goal goal_of(std::string name, Direction direction, double value) {
  Goal goal;
  goal.name = std::move(name);
  goal.direction = direction;
  goal.goal = value;
  return goal;
}

TEST(Goals, TheFileIsReadAndHasItsSections) {
  const auto all = goals_of("");
  ASSERT_TRUE(all) << all.error().message;
  std::size_t sum = 0;
  for (const char* section : {"weights", "policy", "store", "kv", "gateway"}) {
    EXPECT_GE(goals_of(section)->size(), 4U) << section;
    sum += goals_of(section)->size();
  }
  EXPECT_EQ(all->size(), sum);
  EXPECT_EQ(goals_of("weights")->size(), 16U);
  EXPECT_EQ(goals_of("policy")->size(), 7U);
  EXPECT_EQ(goals_of("nothing")->size(), 0U);
}

TEST(Goals, DirectionDecides) {
  const Goal goals[] = {goal_of("least", Direction::at_least, 90), goal_of("most", Direction::at_most, 1.15)};
  const auto met = set_beside(goals, std::vector<GoalFigure>{{"least", 90.0, {}, ""}, {"most", 1.15, {}, ""}});
  ASSERT_TRUE(met);
  EXPECT_TRUE(met->all_met());
  const auto missed = set_beside(goals, std::vector<GoalFigure>{{"least", 89.99, {}, ""}, {"most", 1.16, {}, ""}});
  EXPECT_FALSE(missed->rows[0].met);
  EXPECT_FALSE(missed->rows[1].met);
}

TEST(Goals, SkippedForgottenAndNotANumberAreMissed) {
  const Goal goals[] = {goal_of("a", Direction::at_most, 1), goal_of("b", Direction::at_most, 1),
                        goal_of("c", Direction::at_most, 1)};
  const auto table =
      set_beside(goals, std::vector<GoalFigure>{{"a", {}, {}, "no cgroup here"},
                                                {"c", std::numeric_limits<double>::quiet_NaN(), {}, ""}});
  ASSERT_TRUE(table);
  for (const GoalRow& row : table->rows) EXPECT_FALSE(row.met) << row.goal.name;
  EXPECT_NE(table->text().find("no cgroup here"), std::string::npos);
  EXPECT_NE(table->text().find("not measured"), std::string::npos);
  EXPECT_FALSE(GoalTable{}.all_met());
}

TEST(Goals, MeasuredLimitGoesBeforeTheGoalsOwn) {
  Goal goal = goal_of("a", Direction::at_least, 20);
  goal.limit = 100;
  const auto table = set_beside(std::vector<Goal>{goal}, std::vector<GoalFigure>{{"a", 21.0, 48.0, ""}});
  ASSERT_TRUE(table);
  const auto json = nlohmann::json::parse(table->json());
  EXPECT_EQ(json["goals"][0]["limit"], 48.0);
  EXPECT_EQ(json["all_met"], true);
}

TEST(Goals, AFigureThatNoGoalAsksForIsRefused) {
  const Goal goals[] = {goal_of("a", Direction::at_most, 1)};
  EXPECT_EQ(set_beside(goals, std::vector<GoalFigure>{{"aa", 1.0, {}, ""}}).error().code, Code::invalid);
  EXPECT_EQ(set_beside(goals, std::vector<GoalFigure>{{"a", 1.0, {}, ""}, {"a", 1.0, {}, ""}}).error().code,
            Code::invalid);
}

TEST(Goals, BrokenFilesSayWhatIsWrong) {
  const char* broken[] = {
      "",
      "[]",
      R"({"goals": [1]})",
      R"({"goals": [{"name": "a", "what": "w", "unit": "x", "section": "s", "goal": 1}]})",
      R"({"goals": [{"name": "a", "what": "w", "unit": "x", "section": "s", "direction": "up", "goal": 1}]})",
      R"({"goals": [{"name": "a", "what": "w", "unit": "x", "section": "s", "direction": "at_most", "goal": "1"}]})",
      R"({"goals": [{"name": "a", "what": "w", "unit": "x", "section": "s", "direction": "at_most", "goal": 1, "limit": "1"}]})",
      R"({"goals": [{"name": "a", "what": "w", "unit": "x", "section": "s", "direction": "at_most", "goal": 1},
                    {"name": "a", "what": "w", "unit": "x", "section": "s", "direction": "at_most", "goal": 1}]})",
  };
  for (const char* text : broken) {
    const auto goals = parse_goals(text, "here");
    ASSERT_FALSE(goals) << text;
    EXPECT_EQ(goals.error().code, Code::corrupt);
    EXPECT_TRUE(goals.error().message.starts_with("here: ")) << goals.error().message;
  }
}

}  // namespace
}  // namespace artesian::bench
