#include "bench/weights_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "platform/shared_mapping.h"

namespace artesian::bench {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const WeightsCase& find_case(std::string_view name) {
  return *std::ranges::find(weights_cases(), name, &WeightsCase::name);
}

bool has(const Command& command, std::string_view word) {
  return std::ranges::find(command.arguments, word) != command.arguments.end();
}

// A stand-in for the programs: what it answers is set by the test, what it was asked is kept.
class WeightsRunner : public ::testing::Test {
 protected:
  WeightsRunner() {
    settings_.engine = "/engine/llama-completion";
    settings_.artesian = "/bin/artesian";
    settings_.shell = "/bin/bash";
    settings_.models = {{BenchModel::moe, {"moe.gguf", "moe-2.gguf"}}, {BenchModel::flat, {"flat.gguf"}}};
    settings_.names = {{BenchModel::moe, "MoE"}, {BenchModel::flat, "flat"}, {BenchModel::dense, "dense"}};
    settings_.limits = {{Limit::large, 900'000'000}, {Limit::small, 560'000'000}, {Limit::dense, 1'000'000'000}};
    settings_.stats_path = ::testing::TempDir() + "artesian-weights-runner." +
                           ::testing::UnitTest::GetInstance()->current_test_info()->name();
    settings_.repeat = 1;
    hooks_.launch = [this](const Command& command) {
      asked_.push_back(command);
      return answer_(command);
    };
    hooks_.forget_cached = [this](const std::string& path) { forgotten_.push_back(path); };
    hooks_.bandwidth = [this]() -> Result<double> { return bandwidths_.at(bandwidth_++); };
    answer_ = [this](const Command& command) { return usual(command, "some text"); };
  }
  ~WeightsRunner() override { std::filesystem::remove(settings_.stats_path); }

  static bool opens(const Command& command) { return has(command, "--stats-file"); }
  static bool limited(const Command& command) { return command.path == "/bin/bash"; }

  Result<Captured> usual(const Command& command, std::string text, std::string state = "active") {
    Captured captured;
    captured.out = std::move(text);
    captured.err =
        "prompt eval time = 1000 ms / 256 tokens\n eval time = 630 ms / 63 runs\nartesian: 64 tokens: 5 B read\n";
    captured.first_output = std::chrono::milliseconds(1500);
    if (opens(command)) {
      StatsSnapshot stats;
      stats.state = std::move(state);
      stats.reason = "because";
      stats.decode.tokens = 63;
      auto file = SharedMapping::open(settings_.stats_path, stats_file_bytes);
      StatsWriter(file->bytes().first(stats_region_bytes)).write(stats);
    }
    return captured;
  }

  Result<Measurements> measure_case(std::string_view name) {
    const WeightsCase* const cases[] = {&find_case(name)};
    return measure(settings_, hooks_, cases);
  }

  RunnerSettings settings_;
  RunnerHooks hooks_;
  std::function<Result<Captured>(const Command&)> answer_;
  std::vector<Command> asked_;
  std::vector<std::string> forgotten_;
  std::vector<double> bandwidths_ = {1e9, 2e9, 1.5e9};
  std::size_t bandwidth_ = 0;
};

TEST_F(WeightsRunner, CommandsAreThoseOfTheWay) {
  const Arm plain{BenchModel::moe, Way::plain, Limit::none, 256, 64};
  const Command alone = command_of(settings_, plain);
  EXPECT_EQ(alone.path, settings_.engine);
  EXPECT_EQ(alone.arguments.front(), settings_.engine);
  EXPECT_THAT(alone.arguments, Contains("--no-repack"));
  EXPECT_THAT(alone.arguments, Contains("moe.gguf"));
  EXPECT_THAT(alone.arguments, Contains("64"));

  Arm door = plain;
  door.way = Way::door;
  door.limit = Limit::small;
  settings_.threads = 3;
  const Command limited = command_of(settings_, door);
  EXPECT_EQ(limited.path, "/bin/bash");
  EXPECT_THAT(limited.arguments.at(2), HasSubstr("cgroup_make()"));  // the script itself
  EXPECT_EQ(limited.arguments.at(4), "560000000");
  EXPECT_EQ(limited.arguments.at(5), "--");
  EXPECT_EQ(limited.arguments.at(6), "/bin/artesian");
  EXPECT_THAT(limited.arguments, Contains("-t"));
  EXPECT_FALSE(has(limited, "--no-repack"));  // the door sees to it
  EXPECT_FALSE(has(limited, "--mode"));

  Arm on = plain;
  on.way = Way::door_on;
  EXPECT_THAT(command_of(settings_, on).arguments, Contains("--mode"));
  Arm stock = plain;
  stock.way = Way::stock;
  EXPECT_FALSE(has(command_of(settings_, stock), "--no-repack"));
}

TEST_F(WeightsRunner, RunsAreInterleavedAndTheModelIsForgottenBeforeEach) {
  settings_.repeat = 3;
  const auto measured = measure_case("moe.900.prefill");
  ASSERT_TRUE(measured) << measured.error().message;
  ASSERT_EQ(asked_.size(), 6U);
  for (std::size_t i = 0; i < asked_.size(); ++i) EXPECT_EQ(opens(asked_[i]), i % 2 == 1) << i;
  EXPECT_EQ(forgotten_.size(), 12U);  // two files
  for (const auto& [arm, runs] : measured->arms) {
    EXPECT_EQ(runs.runs.size(), 3U);
    EXPECT_EQ(runs.failure, "");
    EXPECT_EQ(runs.runs[0].timings.prompt_tokens, 256U);
    EXPECT_DOUBLE_EQ(runs.runs[0].first_token_seconds, 1.5);
    EXPECT_EQ(runs.runs[0].stats.has_value(), arm.opens_door());
  }
  EXPECT_EQ(bandwidth_, 0U);  // no figure of this case needs it
}

TEST_F(WeightsRunner, TheBestBandwidthOfAllRoundsCounts) {
  settings_.repeat = 3;
  const auto measured = measure_case("moe.900.flat");
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_EQ(measured->bandwidth, 2e9);
}

TEST_F(WeightsRunner, AnotherTextIsAFailureAndNotRunAgain) {
  settings_.repeat = 3;
  answer_ = [this](const Command& command) { return usual(command, opens(command) ? "other text" : "some text"); };
  const auto measured = measure_case("moe.900.prefill");
  ASSERT_TRUE(measured);
  EXPECT_EQ(asked_.size(), 4U);
  for (const auto& [arm, runs] : measured->arms) {
    EXPECT_EQ(runs.failure.empty(), !arm.opens_door());
    EXPECT_EQ(runs.failure.find("text differs") != std::string::npos, arm.opens_door());
    EXPECT_EQ(runs.text_differs, arm.opens_door());
  }
}

TEST_F(WeightsRunner, ARunThatLostItsEndIsRunAgain) {
  int door = 0;
  answer_ = [&, this](const Command& command) {
    return usual(command, opens(command) && ++door == 1 ? "some" : "some text");
  };
  const auto measured = measure_case("moe.900.prefill");
  ASSERT_TRUE(measured);
  EXPECT_EQ(door, 2);
  for (const auto& [arm, runs] : measured->arms) EXPECT_EQ(runs.failure, "");
}

TEST_F(WeightsRunner, AReferenceThatLostItsEndIsRunAgain) {
  int plain = 0;
  answer_ = [&, this](const Command& command) {
    return usual(command, !opens(command) && ++plain == 1 ? "some" : "some text");
  };
  const auto measured = measure_case("moe.900.prefill");
  ASSERT_TRUE(measured);
  EXPECT_EQ(plain, 2);
  for (const auto& [arm, runs] : measured->arms) EXPECT_EQ(runs.failure, "");
}

TEST_F(WeightsRunner, ARunThatLostItsTimingsIsRunAgain) {
  int plain = 0;
  answer_ = [&, this](const Command& command) {
    auto captured = usual(command, "some text");
    if (!opens(command) && ++plain == 1) captured->err = "0.0 I load_tensors\n";
    return captured;
  };
  const auto measured = measure_case("moe.900.prefill");
  ASSERT_TRUE(measured);
  EXPECT_EQ(plain, 2);
  for (const auto& [arm, runs] : measured->arms) EXPECT_EQ(runs.failure, "");
}

TEST_F(WeightsRunner, TimingsThatNeverComeAreAFailure) {
  answer_ = [this](const Command& command) {
    auto captured = usual(command, "some text");
    captured->err.clear();
    return captured;
  };
  const auto measured = measure_case("moe.900.prefill");
  ASSERT_TRUE(measured);
  EXPECT_EQ(asked_.size(), 6U);  // of the reference; there is nothing to compare the other one with
  for (const auto& [arm, runs] : measured->arms) EXPECT_THAT(runs.failure, HasSubstr("did not say how long"));
}

TEST_F(WeightsRunner, ATextThatStaysShortNeverCountsAsEqual) {
  answer_ = [this](const Command& command) { return usual(command, opens(command) ? "some" : "some text"); };
  const auto measured = measure_case("moe.900.prefill");
  ASSERT_TRUE(measured);
  for (const auto& [arm, runs] : measured->arms) EXPECT_EQ(runs.failure.empty(), !arm.opens_door());
}

TEST_F(WeightsRunner, ADoorThatDoesNotDoItsPartIsAFailure) {
  answer_ = [this](const Command& command) { return usual(command, "some text", "aside"); };
  auto measured = measure_case("moe.900.prefill");
  ASSERT_TRUE(measured);
  EXPECT_THAT(
      std::ranges::find_if(measured->arms, [](const auto& row) { return row.first.opens_door(); })->second.failure,
      HasSubstr("the door is aside and not active: because"));
  measured = measure_case("fits.aside");
  ASSERT_TRUE(measured);
  for (const auto& [arm, runs] : measured->arms) EXPECT_EQ(runs.failure, "");
}

TEST_F(WeightsRunner, AProgramThatFailsIsToldWithItsLastWords) {
  answer_ = [this](const Command& command) -> Result<Captured> {
    if (opens(command)) return usual(command, "some text");
    Captured captured;
    captured.exit_code = 137;
    captured.err = "first\nlast words\n";
    return captured;
  };
  const auto measured = measure_case("moe.900.prefill");
  ASSERT_TRUE(measured);
  EXPECT_EQ(asked_.size(), 1U);  // and nothing is left to compare the door with
  for (const auto& [arm, runs] : measured->arms) {
    EXPECT_THAT(runs.failure, HasSubstr("exit code 137 (killed, perhaps out of memory): last words"));
  }
}

TEST_F(WeightsRunner, WithoutLimitsTheirCasesAreSkippedAndSaySo) {
  settings_.no_limit_reason = "be root";
  const WeightsCase* const cases[] = {&find_case("moe.900.decode"), &find_case("fits.active")};
  const auto measured = measure(settings_, hooks_, cases);
  ASSERT_TRUE(measured);
  EXPECT_TRUE(std::ranges::none_of(asked_, limited));
  EXPECT_EQ(asked_.size(), 2U);  // of the case that needs none
  for (const GoalFigure& figure : cases[0]->figures(*cases[0], *measured, settings_.tokens)) {
    EXPECT_FALSE(figure.figure);
    EXPECT_THAT(figure.note, HasSubstr("be root"));
  }
}

TEST_F(WeightsRunner, ASignalEndsAll) {
  answer_ = [this](const Command& command) {
    auto captured = usual(command, "some text");
    captured->interrupted = 2;
    return captured;
  };
  const auto measured = measure_case("moe.900.prefill");
  ASSERT_FALSE(measured);
  EXPECT_EQ(measured.error().code, Code::retry);
  EXPECT_EQ(asked_.size(), 1U);
}

TEST_F(WeightsRunner, TheScriptSaysWhyThereAreNoLimits) {
  hooks_.launch = [](const Command& command) -> Result<Captured> {
    EXPECT_THAT(command.arguments.at(2), HasSubstr("\nmemory_limit_reason"));
    Captured captured;
    captured.out = "no memory hierarchy is mounted\n";
    return captured;
  };
  EXPECT_EQ(limit_reason("/bin/bash", hooks_.launch).value(), "no memory hierarchy is mounted");
}

}  // namespace
}  // namespace artesian::bench
