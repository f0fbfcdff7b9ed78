#include "policy/governor.h"

#include <gtest/gtest.h>

#include <random>

namespace artesian {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A process in a control group of 1 GiB on a large machine: the engine holds 100 MiB and maps 50 MiB.
GovernorFacts quiet() {
  GovernorFacts facts;
  facts.limit_bytes = 1 * GiB;
  facts.unreclaimable_bytes = 100 * MiB;
  facts.mapped_bytes = 50 * MiB;
  facts.available_bytes = 16 * GiB;
  return facts;
}

constexpr std::uint64_t quiet_ceiling = 1 * GiB - 100 * MiB - 50 * MiB - 32 * MiB;

TEST(Governor, TakesWhatTheLimitLeaves) {
  Governor governor({.minimum_bytes = 100 * MiB});
  const GovernorDecision decision = governor.decide(quiet());
  EXPECT_EQ(decision.target_bytes, quiet_ceiling);
  EXPECT_FALSE(decision.below_minimum);
  EXPECT_TRUE(decision.message.empty());
}

TEST(Governor, OurOwnMemoryDoesNotCountAgainstUs) {
  GovernorFacts facts = quiet();
  facts.unreclaimable_bytes += 500 * MiB;
  facts.committed_bytes = 500 * MiB;
  EXPECT_EQ(governor_ceiling({}, facts), quiet_ceiling);
}

TEST(Governor, MarginIsAShareOfALargeLimit) {
  EXPECT_EQ(governor_margin(100 * MiB), 32 * MiB);
  EXPECT_EQ(governor_margin(100 * GiB), 3 * GiB);
}

TEST(Governor, WithoutALimitTheMachineCounts) {
  GovernorFacts facts;
  facts.available_bytes = 900 * MiB;
  facts.committed_bytes = 100 * MiB;
  facts.mapped_bytes = 200 * MiB;
  EXPECT_EQ(governor_ceiling({}, facts), 1000 * MiB - 32 * MiB - 200 * MiB);
}

TEST(Governor, ASmallMachineUnderALargeLimitCounts) {
  GovernorFacts facts = quiet();
  facts.limit_bytes = 100 * GiB;
  facts.available_bytes = 500 * MiB;
  EXPECT_EQ(governor_ceiling({}, facts), 500 * MiB - 50 * MiB - 32 * MiB);
}

TEST(Governor, NeverAboveTheUsersBudgetNorWhatIsOfUse) {
  Governor budget({.budget_bytes = 300 * MiB});
  EXPECT_EQ(budget.decide(quiet()).target_bytes, 300 * MiB);
  Governor useful({.useful_bytes = 200 * MiB});
  EXPECT_EQ(useful.decide(quiet()).target_bytes, 200 * MiB);
}

TEST(Governor, ShrinksAtOnceAndGrowsSlowly) {
  Governor governor({.minimum_bytes = 100 * MiB});
  GovernorFacts facts = quiet();
  governor.decide(facts);
  facts.now = milliseconds(100);
  facts.unreclaimable_bytes += 300 * MiB;  // the engine takes more
  EXPECT_EQ(governor.decide(facts).target_bytes, quiet_ceiling - 300 * MiB);
  facts.now = milliseconds(200);
  facts.unreclaimable_bytes -= 300 * MiB;  // and gives it back
  EXPECT_EQ(governor.decide(facts).target_bytes, quiet_ceiling - 300 * MiB);
  facts.now = seconds(5);
  EXPECT_EQ(governor.decide(facts).target_bytes, quiet_ceiling - 300 * MiB);
  std::uint64_t before = quiet_ceiling - 300 * MiB;
  int steps = 0;
  for (facts.now = seconds(6); before < quiet_ceiling && steps < 100; facts.now += seconds(1), ++steps) {
    const std::uint64_t target = governor.decide(facts).target_bytes;
    EXPECT_GT(target, before);
    EXPECT_LE(target - before, 18 * MiB);
    before = target;
  }
  EXPECT_EQ(before, quiet_ceiling);
  EXPECT_GE(steps, 17);
}

TEST(Governor, GrowsOnceASecondHoweverOftenItIsAsked) {
  Governor governor({});
  GovernorFacts facts = quiet();
  facts.unreclaimable_bytes += 300 * MiB;
  const std::uint64_t start = governor.decide(facts).target_bytes;
  facts.unreclaimable_bytes -= 300 * MiB;
  for (facts.now = seconds(5); facts.now < seconds(7); facts.now += milliseconds(10)) governor.decide(facts);
  EXPECT_LE(governor.decide(facts).target_bytes, start + 3 * 18 * MiB);
  EXPECT_GE(governor.decide(facts).target_bytes, start + 2 * 16 * MiB);
}

TEST(Governor, PressureGivesBackStepByStepAndRecoversInCalm) {
  Governor governor({.minimum_bytes = 100 * MiB});
  GovernorFacts facts = quiet();
  const double start = static_cast<double>(governor.decide(facts).target_bytes);
  facts.now = seconds(1);
  facts.psi_full_percent = 15;
  facts.psi_some_percent = 20;
  EXPECT_NEAR(static_cast<double>(governor.decide(facts).target_bytes), start * 0.9, 2);
  facts.now = seconds(2);  // too early for a second step
  EXPECT_NEAR(static_cast<double>(governor.decide(facts).target_bytes), start * 0.9, 2);
  facts.now = seconds(4);
  EXPECT_NEAR(static_cast<double>(governor.decide(facts).target_bytes), start * 0.81, 2);
  facts.psi_full_percent = 0;
  facts.psi_some_percent = 8;  // easing, not calm yet: no growth
  for (facts.now = seconds(5); facts.now < seconds(20); facts.now += seconds(1)) {
    EXPECT_NEAR(static_cast<double>(governor.decide(facts).target_bytes), start * 0.81, 2);
  }
  facts.psi_some_percent = 0;
  for (; facts.now < seconds(60); facts.now += seconds(1)) governor.decide(facts);
  EXPECT_EQ(governor.decide(facts).target_bytes, quiet_ceiling);
}

TEST(Governor, LastingPressureStopsAtTheMinimum) {
  Governor governor({.minimum_bytes = 400 * MiB});
  GovernorFacts facts = quiet();
  facts.psi_some_percent = 90;
  for (facts.now = seconds(0); facts.now < seconds(100); facts.now += seconds(1)) {
    const GovernorDecision decision = governor.decide(facts);
    EXPECT_GE(decision.target_bytes, 400 * MiB);
    EXPECT_FALSE(decision.below_minimum);
  }
  EXPECT_EQ(governor.decide(facts).target_bytes, 400 * MiB);
}

TEST(Governor, ALoweredLimitBelowTheMinimumIsSaid) {
  Governor governor({.minimum_bytes = 400 * MiB});
  GovernorFacts facts = quiet();
  governor.decide(facts);
  facts.now = seconds(1);
  facts.limit_bytes = 700 * MiB;
  EXPECT_EQ(governor.decide(facts).target_bytes, 700 * MiB - 182 * MiB);
  facts.now = seconds(2);
  facts.limit_bytes = 500 * MiB;
  const GovernorDecision decision = governor.decide(facts);
  EXPECT_TRUE(decision.below_minimum);
  EXPECT_EQ(decision.ceiling_bytes, 318 * MiB);
  EXPECT_EQ(decision.target_bytes, 400 * MiB);
  EXPECT_EQ(decision.message, "weights need 400.0 MiB at least, and only 318.0 MiB can be had");
  facts.now = seconds(3);
  facts.limit_bytes = 1 * GiB;
  EXPECT_FALSE(governor.decide(facts).below_minimum);
}

TEST(Governor, NothingLeftIsNotAWrap) {
  GovernorFacts facts = quiet();
  facts.limit_bytes = 10 * MiB;
  EXPECT_EQ(governor_ceiling({}, facts), 0U);
  facts.available_bytes = ~std::uint64_t{0};
  facts.committed_bytes = 5;
  facts.limit_bytes = ~std::uint64_t{0};
  EXPECT_GT(governor_ceiling({}, facts), 1 * GiB);
  facts.mapped_bytes = ~std::uint64_t{0};
  EXPECT_EQ(governor_ceiling({}, facts), 0U);
}

// Whatever happens, the process with the target in use stays below its limit less the margin, unless the minimum is
// said not to fit.
TEST(Governor, NeverOverTheLimit) {
  std::mt19937_64 random(9);
  for (int run = 0; run < 20; ++run) {
    GovernorSettings settings{.budget_bytes = (100 + random() % 900) * MiB, .minimum_bytes = (1 + random() % 99) * MiB};
    Governor governor(settings);
    GovernorFacts facts = quiet();
    for (int step = 0; step < 500; ++step) {
      facts.now += milliseconds(random() % 3000);
      const std::uint64_t others = (50 + random() % 600) * MiB;
      facts.limit_bytes = (200 + random() % 1200) * MiB;
      facts.unreclaimable_bytes = others + facts.committed_bytes;
      facts.psi_some_percent = static_cast<double>(random() % 100);
      const GovernorDecision decision = governor.decide(facts);
      EXPECT_LE(decision.target_bytes, std::max(*settings.budget_bytes, settings.minimum_bytes));
      if (!decision.below_minimum) {
        EXPECT_LE(others + facts.mapped_bytes + decision.target_bytes + governor_margin(*facts.limit_bytes),
                  *facts.limit_bytes);
      }
      facts.committed_bytes = decision.target_bytes;
    }
  }
}

}  // namespace
}  // namespace artesian
