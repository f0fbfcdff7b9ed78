#include "bench/weights_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace artesian::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const WeightsCase& find_case(std::string_view name) {
  return *std::ranges::find(weights_cases(), name, &WeightsCase::name);
}

WeightsReport sample() {
  WeightsReport report;
  report.machine = "a processor, 2 cores";
  report.settings.names = {{BenchModel::moe, "MoE"}};
  report.settings.limits = {{Limit::large, 900'000'000}, {Limit::small, 560'000'000}, {Limit::dense, 1'000'000'000}};
  const WeightsCase* const cases[] = {&find_case("moe.900.prefill"), &find_case("moe.560.prefill")};
  for (const WeightsCase* info : cases) {
    for (const Arm& arm : info->arms(*info, 64)) {
      ArmRuns& runs = report.measured.arms[arm];
      if (arm.limit == Limit::small) {
        runs.failure = "it was | killed";
        continue;
      }
      runs.runs.resize(3);
      for (std::size_t i = 0; i < 3; ++i) {
        runs.runs[i].text = "text";
        runs.runs[i].timings.prompt_tokens = 512;
        runs.runs[i].timings.prompt_seconds = 4 + static_cast<double>(i);
        runs.runs[i].timings.decode_tokens = 7;
        runs.runs[i].timings.decode_seconds = 1;
      }
    }
  }
  report.goals = *weights_goals(cases, report.measured, 64);
  return report;
}

TEST(WeightsReport, SetsOnlyTheGoalsOfItsCasesBesideTheFigures) {
  const auto report = sample();
  ASSERT_EQ(report.goals.rows.size(), 2U);
  EXPECT_TRUE(report.goals.rows[0].met);
  EXPECT_NEAR(report.goals.rows[0].measured.figure.value_or(0), 100, 1e-9);
  EXPECT_FALSE(report.goals.rows[1].met);
  EXPECT_FALSE(report.goals.all_met());
}

TEST(WeightsReport, TextHasWaysWithTheirSpreadAndGoals) {
  const std::string text = weights_text(sample());
  EXPECT_THAT(text, HasSubstr("MoE, 900.0 MB, artesian run, 512 + 8 tokens, 3 runs; prefill tokens/s 102 (85.3–128)"));
  EXPECT_THAT(text, HasSubstr("it was | killed"));
  EXPECT_THAT(text, HasSubstr("moe.900.prefill"));
  EXPECT_THAT(text, HasSubstr("MISSED"));
}

TEST(WeightsReport, JsonHasTheSame) {
  const auto json = nlohmann::json::parse(weights_json(sample()));
  EXPECT_EQ(json["check"]["all_met"], false);
  EXPECT_EQ(json["check"]["goals"].size(), 2U);
  ASSERT_EQ(json["arms"].size(), 3U);  // the run in memory is shared
  const auto& arm = json["arms"][0];
  EXPECT_EQ(arm["runs"], 3);
  EXPECT_EQ(arm["text_bytes"], 4);
  EXPECT_DOUBLE_EQ(arm["prefill tokens/s"]["lowest"].get<double>(), 512.0 / 6);
  EXPECT_TRUE(arm["hits %"].is_null());
}

TEST(WeightsReport, MarkdownKeepsItsTablesWhole) {
  const std::string text = weights_markdown(sample());
  EXPECT_THAT(text, HasSubstr("| 100.00 % | ≥ 90 % |"));
  EXPECT_THAT(text, HasSubstr("**missed**"));
  EXPECT_THAT(text, HasSubstr("it was \\| killed"));
  EXPECT_THAT(text, Not(HasSubstr("it was | killed")));
}

}  // namespace
}  // namespace artesian::bench
