#include "policy/artesian_policy.h"

#include <gtest/gtest.h>

#include <vector>

namespace artesian {
namespace {

TEST(ArtesianPolicy, RefusesAnExpertThatIsWorthLessThanAllResidents) {
  ArtesianPolicy policy(8);
  const std::vector<ExpertIndex> hot = {0, 1};
  for (int i = 0; i < 100; ++i) policy.on_use(hot);
  const std::vector<ExpertIndex> stranger = {5};
  policy.on_use(stranger);
  EXPECT_EQ(policy.victim(hot, 5), std::nullopt);
  EXPECT_EQ(policy.victim(hot, 0), std::optional<std::size_t>(0));  // equal worth: taken
}

TEST(ArtesianPolicy, RemembersExpertsThatAreNotResident) {
  ArtesianPolicy policy(8);
  const std::vector<ExpertIndex> ghost = {3};
  const std::vector<ExpertIndex> once = {4};
  const std::vector<ExpertIndex> other = {5};
  for (int i = 0; i < 50; ++i) policy.on_use(ghost);
  policy.on_use(once);
  policy.on_use(other);
  const std::vector<ExpertIndex> resident = {3, 4};
  EXPECT_EQ(policy.victim(resident, 5), std::optional<std::size_t>(1));
}

TEST(ArtesianPolicy, RecencyLeadsBeforeThereIsHistory) {
  ArtesianPolicy policy(8);
  for (ExpertIndex expert = 0; expert < 4; ++expert) policy.on_use(std::vector<ExpertIndex>{expert});
  EXPECT_EQ(policy.victim(std::vector<ExpertIndex>{2, 0, 1}, 3), std::optional<std::size_t>(1));
}

TEST(ArtesianPolicy, OldHeatFades) {
  ArtesianPolicy policy(8);
  for (int i = 0; i < 500; ++i) policy.on_use(std::vector<ExpertIndex>{0});
  for (int i = 0; i < 2000; ++i) policy.on_use(std::vector<ExpertIndex>{i % 10 == 0 ? 1U : 2U});
  EXPECT_EQ(policy.victim(std::vector<ExpertIndex>{1, 0}, 2), std::optional<std::size_t>(1));
}

// The increment passes its limit after about 5,500 steps: the order of worths must survive the scaling.
TEST(ArtesianPolicy, LongRunsKeepTheOrder) {
  ArtesianPolicy policy(4);
  for (int i = 0; i < 40'000; ++i) {
    policy.on_use(i % 4 == 0 ? std::vector<ExpertIndex>{0, 1} : std::vector<ExpertIndex>{0, 2});
    if (i > 100 && i % 4 == 3) {
      ASSERT_EQ(policy.victim(std::vector<ExpertIndex>{0, 1}, 2), std::optional<std::size_t>(1)) << i;
    }
  }
}

}  // namespace
}  // namespace artesian
