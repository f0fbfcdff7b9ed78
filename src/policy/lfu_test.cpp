#include "policy/lfu.h"

#include <gtest/gtest.h>

#include <vector>

#include "policy/lru.h"

namespace artesian {
namespace {

TEST(Lfu, TheLessOftenUsedGivesWayAndTheOlderAmongEquals) {
  LfuPolicy policy(4);
  for (const ExpertIndex expert : {0U, 1U, 0U, 2U}) policy.on_use(std::vector<ExpertIndex>{expert});
  EXPECT_EQ(policy.victim(std::vector<ExpertIndex>{0, 2, 1}, 3), std::optional<std::size_t>(2));
  EXPECT_EQ(policy.victim(std::vector<ExpertIndex>{0, 2}, 3), std::optional<std::size_t>(1));
}

TEST(Lfu, CountsDecay) {
  LfuPolicy policy(3);
  for (int i = 0; i < 100; ++i) policy.on_use(std::vector<ExpertIndex>{0});
  for (int i = 0; i < 1000; ++i) policy.on_use(std::vector<ExpertIndex>{i % 10 == 0 ? 1U : 2U});
  EXPECT_EQ(policy.victim(std::vector<ExpertIndex>{1, 0}, 2), std::optional<std::size_t>(1));
}

TEST(Lru, TheOldestGivesWayWhateverItsCount) {
  LruPolicy policy(4);
  for (const ExpertIndex expert : {0U, 0U, 0U, 1U, 2U}) policy.on_use(std::vector<ExpertIndex>{expert});
  EXPECT_EQ(policy.victim(std::vector<ExpertIndex>{2, 1, 0}, 3), std::optional<std::size_t>(2));
}

}  // namespace
}  // namespace artesian
