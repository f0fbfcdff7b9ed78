// The conformance suite: every KV policy of the registries passes the same list of cases.
#include "policy/kv_policy.h"

#include <gtest/gtest.h>

#include <string>

#include "policy/kv_budget.h"
#include "policy/kv_eviction.h"
#include "policy/kv_reuse.h"

namespace artesian {
namespace {

using std::chrono::seconds;

KvFacts block_of(std::uint64_t conversation, std::uint32_t position, std::uint32_t tokens = 512) {
  KvFacts facts;
  facts.key = {conversation * 1000 + position + 1, conversation + 1};
  if (position > 0) facts.parent = {conversation * 1000 + position, conversation + 1};
  facts.pages = 1;
  facts.position = position;
  facts.tokens = tokens;
  facts.parent_stored = true;
  return facts;
}

std::vector<KvFacts> prompt_of(std::uint64_t conversation, std::uint32_t blocks) {
  std::vector<KvFacts> prompt;
  for (std::uint32_t i = 0; i < blocks; ++i) prompt.push_back(block_of(conversation, i));
  return prompt;
}

class KvAdmissionConformance : public testing::TestWithParam<KvAdmissionInfo> {
 protected:
  KvReuse reuse{KvReuseSettings{}};
};

TEST_P(KvAdmissionConformance, RefusesWhatNoPrefixCanReach) {
  KvBudget budget({});
  auto policy = GetParam().make({}, reuse, budget);
  const auto prompt = prompt_of(1, 3);
  for (int turn = 0; turn < 5; ++turn) policy->on_prompt(prompt, seconds(turn));
  KvFacts orphan = prompt[1];
  EXPECT_TRUE(policy->admit(orphan, seconds(5)));
  orphan.parent_stored = false;
  EXPECT_FALSE(policy->admit(orphan, seconds(5)));
}

TEST_P(KvAdmissionConformance, NeverSpendsMoreThanTheBudget) {
  KvBudget budget({.bytes_per_day = 4096 * 86'400, .burst = seconds(10)});  // a block a second
  auto policy = GetParam().make({}, reuse, budget);
  int admitted = 0;
  for (int s = 0; s < 200; ++s) {
    const auto prompt = prompt_of(static_cast<std::uint64_t>(s % 20), 12);
    policy->on_prompt(prompt, seconds(s));
    for (const KvFacts& block : prompt) admitted += policy->admit(block, seconds(s)) ? 1 : 0;
  }
  EXPECT_GT(admitted, 50);
  EXPECT_LE(admitted, 209);
}

INSTANTIATE_TEST_SUITE_P(All, KvAdmissionConformance, testing::ValuesIn(kv_admissions().begin(), kv_admissions().end()),
                         [](const auto& row) {
                           std::string name(row.param.name);
                           std::erase(name, '-');
                           return name;
                         });

struct Admitted {
  bool first, second;
};
Admitted two_sightings(std::string_view name, std::uint32_t position) {
  KvReuse reuse(KvReuseSettings{});
  KvBudget budget({});
  auto policy = find_kv_admission(name)->make({.prefix_blocks_max = 4}, reuse, budget);
  const auto prompt = prompt_of(7, 8);
  policy->on_prompt(prompt, seconds(0));
  const bool first = policy->admit(prompt[position], seconds(0));
  policy->on_prompt(prompt, seconds(60));
  return {first, policy->admit(prompt[position], seconds(60))};
}

TEST(KvAdmission, FirstSightTakesAllAndSecondSightingWaits) {
  EXPECT_TRUE(two_sightings("first-sight", 5).first);
  EXPECT_FALSE(two_sightings("second-sighting", 5).first);
  EXPECT_TRUE(two_sightings("second-sighting", 5).second);
}

TEST(KvAdmission, PrefixDepthStopsAtItsLimit) {
  EXPECT_TRUE(two_sightings("prefix-depth", 3).first);
  EXPECT_FALSE(two_sightings("prefix-depth", 4).second);
}

TEST(KvAdmission, SharedFirstKeepsHalfTheBucketForWhatIsShared) {
  KvReuse reuse(KvReuseSettings{});
  KvBudget budget({.bytes_per_day = 4096 * 86'400, .burst = seconds(10)});
  auto policy = find_kv_admission("shared-first")->make({}, reuse, budget);
  const auto shared = prompt_of(1, 3);
  for (int i = 0; i < 3; ++i) policy->on_prompt(shared, seconds(0));
  const auto once = prompt_of(2, 20);
  policy->on_prompt(once, seconds(0));
  int admitted = 0;
  for (const KvFacts& block : once) admitted += policy->admit(block, seconds(0)) ? 1 : 0;
  EXPECT_EQ(admitted, 5);
  for (const KvFacts& block : shared) EXPECT_TRUE(policy->admit(block, seconds(0)));
}

TEST(KvAdmission, WorthNeverWritesTheEndOfAPrompt) {
  KvReuse reuse({.block_tokens = 512});
  KvBudget budget({});
  auto policy = find_kv_admission("worth")->make({.block_tokens = 512}, reuse, budget);
  const std::vector<KvFacts> prompt = {block_of(1, 0), block_of(1, 1, 100)};
  policy->on_prompt(prompt, seconds(0));
  EXPECT_TRUE(policy->admit(prompt[0], seconds(0)));
  EXPECT_FALSE(policy->admit(prompt[1], seconds(0)));
}

TEST(KvAdmission, GhostsAreBounded) {
  KvReuse reuse(KvReuseSettings{});
  KvBudget budget({});
  auto policy = find_kv_admission("second-sighting")->make({.ghosts_max = 4}, reuse, budget);
  policy->on_prompt(prompt_of(1, 4), seconds(0));
  policy->on_prompt(prompt_of(2, 4), seconds(1));  // pushes the first ones out
  policy->on_prompt(prompt_of(1, 4), seconds(2));
  EXPECT_FALSE(policy->admit(block_of(1, 0), seconds(2)));
}

class KvEvictionConformance : public testing::TestWithParam<KvEvictionInfo> {};

TEST_P(KvEvictionConformance, CarriesWithinTheLimitAndNoLeafWithoutItsRoot) {
  KvReuse reuse(KvReuseSettings{});
  KvBudget budget({});
  auto policy = GetParam().make({}, reuse, budget);
  const auto prompt = prompt_of(3, 6);
  std::vector<std::uint64_t> states;
  reuse.on_prompt(prompt, seconds(0));
  for (const KvFacts& block : prompt) states.push_back(policy->on_put(block, seconds(0)));
  reuse.on_prompt(prompt, seconds(50));
  for (std::size_t i = 0; i < prompt.size(); ++i) states[i] = policy->on_hit(prompt[i], states[i], seconds(50));
  std::vector<bool> out;
  policy->carry(prompt, states, 4, seconds(60), out);
  ASSERT_EQ(out.size(), prompt.size());
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_TRUE(!out[i] || i < 4);
  EXPECT_LT(policy->lifetime(prompt[0], true), kv_lifetimes);
  const KvSegment sealed[] = {{5, 0, 1, 6}, {6, 0, 6, 6}};
  EXPECT_EQ(policy->victim(sealed, seconds(60)), 0U);
}

INSTANTIATE_TEST_SUITE_P(All, KvEvictionConformance, testing::ValuesIn(kv_evictions().begin(), kv_evictions().end()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(KvEviction, CarryingSkipsTheChildrenOfWhatIsLeft) {
  const auto prompt = prompt_of(4, 4);
  std::vector<bool> out;
  kv_carry_wanted(prompt, {true, false, true, true}, 100, out);
  EXPECT_EQ(out, (std::vector<bool>{true, false, false, false}));
}

TEST(KvEviction, ClockCarriesOnlyWhatWasHit) {
  KvReuse reuse(KvReuseSettings{});
  KvBudget budget({});
  const auto prompt = prompt_of(5, 2);
  const std::uint64_t states[] = {1, 0};
  std::vector<bool> out;
  find_kv_eviction("clock")->make({}, reuse, budget)->carry(prompt, states, 10, seconds(0), out);
  EXPECT_EQ(out, (std::vector<bool>{true, false}));
  find_kv_eviction("arrival")->make({}, reuse, budget)->carry(prompt, states, 10, seconds(0), out);
  EXPECT_EQ(out, (std::vector<bool>{false, false}));
}

TEST(KvBudget, FillsWithTimeUpToItsSize) {
  KvBudget budget({.bytes_per_day = 86'400, .burst = seconds(10)});  // a byte a second
  EXPECT_TRUE(budget.take(10, seconds(100)));
  EXPECT_FALSE(budget.take(1, seconds(100)));
  EXPECT_TRUE(budget.take(5, seconds(105)));
  EXPECT_DOUBLE_EQ(budget.fill(seconds(1000)), 1.0);
  EXPECT_FALSE(budget.take(11, seconds(2000)));
}

// Short conversations return after a minute, long ones never do.
TEST(KvReuse, LearnsWhatReturnsAndWhen) {
  KvReuse reuse({.keys_max = 10'000});
  for (std::uint64_t i = 0; i < 200; ++i) {
    const Nanos now = seconds(10 * i);
    reuse.on_prompt(prompt_of(i, 3), now);
    reuse.on_prompt(prompt_of(100'000 + i, 40), now);
    if (i >= 6) reuse.on_prompt(prompt_of(i - 6, 3), now);
  }
  const Nanos now = seconds(2000);
  reuse.on_prompt(prompt_of(500, 3), now);
  reuse.on_prompt(prompt_of(200'000, 40), now);
  const auto returns = reuse.state(block_of(500, 1).key, now);
  const auto leaves = reuse.state(block_of(200'000, 1).key, now);
  EXPECT_GT(reuse.worth(returns, now), 0.6);
  EXPECT_LT(reuse.worth(leaves, now), 0.1);
  EXPECT_LT(reuse.worth(returns, now + seconds(300)), 0.3);
}

TEST(KvReuse, MemoryIsBounded) {
  KvReuse reuse({.keys_max = 100});
  for (std::uint64_t i = 0; i < 50; ++i) reuse.on_prompt(prompt_of(i, 7), seconds(i));
  EXPECT_EQ(reuse.size(), 100U);
}

}  // namespace
}  // namespace artesian
