#include "bench/weights_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "bench/statistics.h"

namespace artesian::bench {
namespace {

constexpr std::uint32_t tokens = 64;

const WeightsCase& find_case(std::string_view name) {
  const auto found = std::ranges::find(weights_cases(), name, &WeightsCase::name);
  EXPECT_NE(found, weights_cases().end()) << name;
  return *found;
}

Run decoded(double seconds_a_token, std::uint64_t count = 63) {
  Run run;
  run.timings.prompt_tokens = 256;
  run.timings.prompt_seconds = 2;
  run.timings.decode_tokens = count;
  run.timings.decode_seconds = seconds_a_token * static_cast<double>(count);
  return run;
}

Run through_door(double seconds_a_token, double bytes_a_token, double compute_a_token) {
  Run run = decoded(seconds_a_token);
  run.stats.emplace();
  auto& decode = run.stats->decode;
  decode.tokens = 50;  // the door's own count divides what the door counted
  decode.bytes_read = static_cast<std::uint64_t>(bytes_a_token * 50);
  decode.compute_ns = static_cast<std::uint64_t>(compute_a_token * 50 * 1e9);
  return run;
}

const GoalFigure& find_figure(const std::vector<GoalFigure>& figures, std::string_view name) {
  const auto found = std::ranges::find(figures, name, &GoalFigure::name);
  EXPECT_NE(found, figures.end()) << name;
  return *found;
}

TEST(WeightsCases, CasesAndGoalsAnswerEachOther) {
  const auto goals = goals_of("weights");
  ASSERT_TRUE(goals);
  std::set<std::string> asked, given;
  for (const Goal& goal : *goals) {
    asked.insert(goal.name);
    EXPECT_EQ(std::ranges::count_if(weights_cases(), [&](const auto& info) { return is_goal_of(info, goal); }), 1)
        << goal.name;
  }
  for (const WeightsCase& info : weights_cases()) {
    for (const GoalFigure& figure : info.figures(info, {}, tokens)) {
      EXPECT_FALSE(figure.figure) << figure.name;
      EXPECT_EQ(figure.note, "not measured") << figure.name;
      given.insert(figure.name);
    }
  }
  EXPECT_EQ(given, asked);
}

TEST(WeightsCases, EveryDoorHasItsReferenceAmongTheArmsOfItsCase) {
  for (const WeightsCase& info : weights_cases()) {
    const auto arms = info.arms(info, tokens);
    for (const Arm& arm : arms) {
      EXPECT_TRUE(!arm.opens_door() || std::ranges::count(arms, reference_of(arm)) == 1) << info.name;
    }
  }
  const Arm aside{BenchModel::moe, Way::door, Limit::none, 512, 64};
  EXPECT_EQ(reference_of(aside).way, Way::stock);
  const Arm limited{BenchModel::moe, Way::door, Limit::small, 512, 64};
  EXPECT_EQ(reference_of(limited), (Arm{BenchModel::moe, Way::plain, Limit::none, 512, 64}));
}

TEST(WeightsCases, TheBoundOfDecoding) {
  const WeightsCase& info = find_case("moe.900.decode");
  const auto arms = info.arms(info, tokens);
  Measurements measured;
  measured.bandwidth = 2e9;
  measured.arms[arms[0]].runs = {decoded(0.020), decoded(0.019), decoded(0.030)};  // 20 ms in memory
  measured.arms[arms[1]].runs = {through_door(0.02, 0, 0.012)};                    // 12 of them experts
  // 40 MB at 2 GB/s are 20 ms, and 8 ms for the rest: 28.
  measured.arms[arms[2]].runs = {through_door(0.056, 40e6, 0), through_door(0.035, 40e6, 0),
                                 through_door(0.028, 40e6, 0)};
  measured.arms[arms[3]].runs = {decoded(0.7, 16)};
  const auto figures = info.figures(info, measured, tokens);
  const auto& bound = find_figure(figures, "moe.900.decode.bound");
  ASSERT_TRUE(bound.figure) << bound.note;
  EXPECT_NEAR(*bound.figure, 35.0 / 28, 1e-6);
  const auto& times = find_figure(figures, "moe.900.decode.mmap");
  ASSERT_TRUE(times.figure) << times.note;
  EXPECT_NEAR(*times.figure, 20, 1e-6);
  EXPECT_NEAR(times.limit.value_or(0), 25, 1e-6);  // what nothing above the bound would reach
}

TEST(WeightsCases, WhatWasReadAheadForNothingIsNotMissed) {
  const WeightsCase& info = find_case("moe.560.flat");
  const auto arms = info.arms(info, tokens);
  Measurements measured;
  measured.bandwidth = 1e9;
  measured.arms[arms[0]].runs = {decoded(0.010)};
  measured.arms[arms[1]].runs = {through_door(0.010, 0, 0.005)};
  bench::Run door = through_door(0.050, 40e6, 0);
  door.stats->decode.bytes_wasted = door.stats->decode.bytes_read / 2;
  measured.arms[arms[2]].runs = {door};
  const auto figures = info.figures(info, measured, tokens);
  EXPECT_NEAR(figures.at(0).figure.value_or(0), 50.0 / 25, 1e-6) << figures.at(0).note;
}

TEST(WeightsCases, DenseIsSetBesideWhatTheDriveGives) {
  const WeightsCase& info = find_case("dense.decode");
  const auto arms = info.arms(info, tokens);
  EXPECT_EQ(arms[1].tokens, tokens / 2);
  Measurements measured;
  measured.bandwidth = 2e9;
  measured.arms[arms[0]].runs = {decoded(0.1)};
  measured.arms[arms[1]].runs = {through_door(0.5, 800e6, 0)};
  measured.arms[arms[2]].runs = {decoded(1.0)};
  const auto figures = info.figures(info, measured, tokens);
  EXPECT_NEAR(find_figure(figures, "dense.decode.bandwidth").figure.value_or(0), 80, 1e-6);
  EXPECT_NEAR(find_figure(figures, "dense.decode.mmap").figure.value_or(0), 2, 1e-6);
  EXPECT_NEAR(find_figure(figures, "dense.decode.mmap").limit.value_or(0), 2.5, 1e-6);
}

TEST(WeightsCases, RatiosOfPrefillFittingAndFirstTokens) {
  const WeightsCase& prefill = find_case("moe.560.prefill");
  const auto prefill_arms = prefill.arms(prefill, tokens);
  Measurements measured;
  measured.arms[prefill_arms[0]].runs = {decoded(1)};
  measured.arms[prefill_arms[1]].runs = {decoded(1)};
  measured.arms[prefill_arms[1]].runs[0].timings.prompt_seconds = 2.5;
  EXPECT_NEAR(prefill.figures(prefill, measured, tokens).at(0).figure.value_or(0), 80, 1e-6);

  const WeightsCase& fits = find_case("fits.active");
  const auto fits_arms = fits.arms(fits, tokens);
  measured.arms[fits_arms[0]].runs = {decoded(0.98)};
  measured.arms[fits_arms[1]].runs = {through_door(1, 0, 0)};
  EXPECT_NEAR(find_figure(fits.figures(fits, measured, tokens), "fits.active.decode").figure.value_or(0), 98, 1e-6);
  EXPECT_NEAR(find_figure(fits.figures(fits, measured, tokens), "fits.active.prefill").figure.value_or(0), 100, 1e-6);

  const WeightsCase& first = find_case("first_token.560");
  const auto first_arms = first.arms(first, tokens);
  measured.arms[first_arms[1]].runs.resize(1);
  measured.arms[first_arms[2]].runs.resize(1);
  EXPECT_FALSE(first.figures(first, measured, tokens).at(0).figure) << "nothing was printed";
  measured.arms[first_arms[1]].runs[0].first_token_seconds = 3;
  measured.arms[first_arms[2]].runs[0].first_token_seconds = 1.2;
  EXPECT_NEAR(first.figures(first, measured, tokens).at(0).figure.value_or(0), 2.5, 1e-6);
}

TEST(WeightsCases, AnArmThatFailedTakesItsFiguresWithIt) {
  const WeightsCase& info = find_case("moe.900.decode");
  const auto arms = info.arms(info, tokens);
  Measurements measured;
  measured.bandwidth = 2e9;
  measured.arms[arms[0]].runs = {decoded(0.020)};
  measured.arms[arms[1]].runs = {through_door(0.02, 0, 0.012)};
  measured.arms[arms[2]].runs = {through_door(0.035, 40e6, 0)};
  measured.arms[arms[2]].failure = "its text differs";
  measured.arms[arms[3]].runs = {decoded(0.7, 16)};
  for (const GoalFigure& figure : info.figures(info, measured, tokens)) {
    EXPECT_FALSE(figure.figure) << figure.name;
    EXPECT_EQ(figure.note, "its text differs") << figure.name;
  }
}

TEST(WeightsCases, Medians) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median({7}), 7);
}

}  // namespace
}  // namespace artesian::bench
