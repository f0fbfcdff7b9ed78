// The conformance suite: every policy of the registry passes the same list of cases.
#include "policy/eviction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace artesian {
namespace {

class EvictionConformance : public testing::TestWithParam<EvictionInfo> {
 protected:
  // Runs seeded skewed routes through a cache of `slots` and returns what was resident after each step.
  std::vector<std::vector<ExpertIndex>> run(std::size_t experts, std::size_t used, std::size_t slots, int steps) {
    auto policy = GetParam().make(experts);
    std::mt19937 random(7);
    std::vector<ExpertIndex> cache;
    std::vector<std::vector<ExpertIndex>> history;
    for (int step = 0; step < steps; ++step) {
      std::vector<ExpertIndex> chosen;
      while (chosen.size() < used) {
        const auto expert = static_cast<ExpertIndex>(std::min(random() % experts, random() % experts));
        if (std::ranges::find(chosen, expert) == chosen.end()) chosen.push_back(expert);
      }
      policy->on_use(chosen);
      for (const ExpertIndex incoming : chosen) {
        if (std::ranges::find(cache, incoming) != cache.end()) continue;
        if (cache.size() < slots) {
          cache.push_back(incoming);
          continue;
        }
        std::vector<ExpertIndex> idle;
        for (const ExpertIndex expert : cache) {
          if (std::ranges::find(chosen, expert) == chosen.end()) idle.push_back(expert);
        }
        if (idle.empty()) continue;
        const auto given = policy->victim(idle, incoming);
        if (!given) continue;
        EXPECT_LT(*given, idle.size());
        *std::ranges::find(cache, idle[*given]) = incoming;
      }
      history.push_back(cache);
    }
    return history;
  }
};

TEST_P(EvictionConformance, VictimIsAlwaysInRange) {
  run(16, 2, 5, 500);
  run(128, 8, 8, 200);
  run(8, 8, 8, 20);
  run(1, 1, 1, 5);
}

TEST_P(EvictionConformance, IsDeterministic) {
  EXPECT_EQ(run(32, 4, 9, 300), run(32, 4, 9, 300));
}

TEST_P(EvictionConformance, AnswersBeforeAnyUse) {
  auto policy = GetParam().make(4);
  const ExpertIndex resident[] = {2, 0};
  const auto given = policy->victim(resident, 3);
  if (given) {
    EXPECT_LT(*given, 2U);
  }
}

TEST_P(EvictionConformance, KeepsWhatIsUsedEveryStepOverWhatWasUsedOnce) {
  auto policy = GetParam().make(64);
  for (ExpertIndex step = 0; step < 40; ++step) {
    const ExpertIndex chosen[] = {0, 10 + step};
    policy->on_use(chosen);
  }
  const ExpertIndex resident[] = {0, 12};
  const ExpertIndex incoming = 49;
  const auto given = policy->victim(resident, incoming);
  EXPECT_TRUE(!given || *given == 1);
}

INSTANTIATE_TEST_SUITE_P(All, EvictionConformance,
                         testing::ValuesIn(eviction_policies().begin(), eviction_policies().end()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(EvictionRegistry, FindsByName) {
  EXPECT_NE(find_eviction("lru"), nullptr);
  EXPECT_NE(find_eviction("lfu"), nullptr);
  EXPECT_EQ(find_eviction("none"), nullptr);
  EXPECT_EQ(find_eviction(eviction_policies().front().name), &eviction_policies().front());
}

}  // namespace
}  // namespace artesian
