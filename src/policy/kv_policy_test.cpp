// The conformance suite: every KV policy of the registries passes the same list of cases.
#include "policy/kv_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "policy/kv_eviction.h"
#include "policy/kv_shared.h"

namespace artesian {
namespace {

using std::chrono::seconds;

KvFacts block_of(std::uint64_t conversation, std::uint32_t position, bool partial = false) {
  KvFacts facts;
  facts.key = {conversation * 1000 + position + 1, conversation + 1};
  if (position > 0) facts.parent = {conversation * 1000 + position, conversation + 1};
  facts.pages = 1;
  facts.position = position;
  facts.partial = partial;
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
  KvShared shared;
};

TEST_P(KvAdmissionConformance, RefusesWhatNoPrefixCanReach) {
  auto policy = GetParam().make({}, shared);
  const auto prompt = prompt_of(1, 3);
  for (int turn = 0; turn < 5; ++turn) policy->on_prompt(prompt, seconds(turn));
  KvFacts orphan = prompt[1];
  EXPECT_TRUE(policy->admit(orphan, seconds(5)));
  orphan.parent_stored = false;
  EXPECT_EQ(policy->admit(orphan, seconds(5)), GetParam().name == "first-sight");
}

TEST_P(KvAdmissionConformance, NeverSpendsMoreThanTheBudget) {
  shared.budget = KvBudget({.bytes_per_day = 4096 * 86'400, .burst = seconds(10)});  // a block a second
  auto policy = GetParam().make({}, shared);
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
  KvShared shared;
  auto policy = find_kv_admission(name)->make({.prefix_blocks_max = 4}, shared);
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
  KvShared shared{.budget = KvBudget({.bytes_per_day = 4096 * 86'400, .burst = seconds(10)})};
  auto policy = find_kv_admission("shared-first")->make({}, shared);
  const auto common = prompt_of(1, 3);
  for (int i = 0; i < 3; ++i) policy->on_prompt(common, seconds(0));
  const auto once = prompt_of(2, 20);
  policy->on_prompt(once, seconds(0));
  int admitted = 0;
  for (const KvFacts& block : once) admitted += policy->admit(block, seconds(0)) ? 1 : 0;
  EXPECT_EQ(admitted, 5);
  for (const KvFacts& block : common) EXPECT_TRUE(policy->admit(block, seconds(0)));
}

TEST(KvAdmission, WorthNeverWritesTheEndOfAPrompt) {
  KvShared shared;
  auto policy = find_kv_admission("worth")->make({}, shared);
  const std::vector<KvFacts> prompt = {block_of(1, 0), block_of(1, 1, true)};
  policy->on_prompt(prompt, seconds(0));
  EXPECT_TRUE(policy->admit(prompt[0], seconds(0)));
  EXPECT_FALSE(policy->admit(prompt[1], seconds(0)));
}

TEST(KvAdmission, GhostsAreBounded) {
  KvShared shared;
  auto policy = find_kv_admission("second-sighting")->make({.ghosts_max = 4}, shared);
  policy->on_prompt(prompt_of(1, 4), seconds(0));
  policy->on_prompt(prompt_of(2, 4), seconds(1));  // pushes the first ones out
  policy->on_prompt(prompt_of(1, 4), seconds(2));
  EXPECT_FALSE(policy->admit(block_of(1, 0), seconds(2)));
}

TEST(KvAdmission, PutsCountAsSightingsOnlyWhereNoPromptNamesTheBlock) {
  KvShared shared;
  auto policy = find_kv_admission("second-sighting")->make({}, shared);
  EXPECT_FALSE(policy->admit(block_of(1, 0), seconds(0)));
  EXPECT_TRUE(policy->admit(block_of(1, 0), seconds(1)));
  policy->on_prompt(prompt_of(2, 1), seconds(2));
  EXPECT_FALSE(policy->admit(block_of(2, 0), seconds(2)));
  EXPECT_FALSE(policy->admit(block_of(2, 0), seconds(3)));
}

class KvEvictionConformance : public testing::TestWithParam<KvEvictionInfo> {};

TEST_P(KvEvictionConformance, CarriesWithinTheLimitAndNoLeafWithoutItsRoot) {
  KvShared shared;
  auto policy = GetParam().make({}, shared);
  const auto prompt = prompt_of(3, 6);
  std::vector<std::uint64_t> states;
  shared.reuse.on_prompt(prompt, seconds(0));
  for (const KvFacts& block : prompt) states.push_back(policy->on_put(block, seconds(0)));
  for (int turn = 1; turn < 6; ++turn) {
    shared.reuse.on_prompt(prompt, seconds(10 * turn));
    for (std::size_t i = 0; i < prompt.size(); ++i)
      states[i] = policy->on_hit(prompt[i], states[i], seconds(10 * turn));
  }
  for (const std::uint64_t state : states) EXPECT_LE(state, kv_state_mask);
  std::vector<bool> out;
  policy->carry(prompt, states, 4, seconds(51), out);
  const bool carries = GetParam().name != "arrival";
  EXPECT_EQ(out, (std::vector<bool>{carries, carries, carries, carries, false, false}));
  auto orphans = prompt;  // of a root that is not stored any more
  orphans.erase(orphans.begin());
  orphans.front().parent_stored = false;
  policy->carry(orphans, std::span(states).subspan(1), 4, seconds(51), out);
  EXPECT_EQ(out, std::vector<bool>(5, false));
}

TEST_P(KvEvictionConformance, WhatNothingIsKnownOfGoes) {
  KvShared shared;
  const auto prompt = prompt_of(3, 2);
  std::vector<std::uint64_t> states{0, 0};
  std::vector<bool> out;
  GetParam().make({}, shared)->carry(prompt, states, 100, std::chrono::hours(5), out);
  EXPECT_EQ(out, (std::vector<bool>{false, false}));
}

TEST_P(KvEvictionConformance, CarriesNothingWithoutBudget) {
  KvShared shared{.budget = KvBudget({.bytes_per_day = 86'400, .burst = seconds(10)})};
  auto policy = GetParam().make({}, shared);
  const auto prompt = prompt_of(3, 2);
  for (int turn = 0; turn < 4; ++turn) shared.reuse.on_prompt(prompt, seconds(turn));
  std::vector<std::uint64_t> states;
  for (const KvFacts& block : prompt) states.push_back(policy->on_hit(block, 0, seconds(5)));
  std::vector<bool> out;
  policy->carry(prompt, states, 100, seconds(5), out);
  EXPECT_EQ(out, (std::vector<bool>{false, false}));
}

INSTANTIATE_TEST_SUITE_P(All, KvEvictionConformance, testing::ValuesIn(kv_evictions().begin(), kv_evictions().end()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(KvEviction, ParentsAreAskedAboutFirstAndChildrenOfWhatIsLeftNever) {
  auto blocks = prompt_of(4, 5);
  std::ranges::reverse(blocks);
  std::vector<std::size_t> asked;
  std::vector<bool> out;
  kv_carry(blocks, 100, out, [&](std::size_t i) {
    asked.push_back(i);
    return i != 2;
  });
  EXPECT_EQ(asked, (std::vector<std::size_t>{4, 3, 2}));
  EXPECT_EQ(out, (std::vector<bool>{false, false, false, true, true}));
}

TEST(KvEviction, ClockCarriesOnlyWhatWasHitAndOnlyOnce) {
  KvShared shared;
  const auto prompt = prompt_of(5, 2);
  auto clock = find_kv_eviction("clock")->make({}, shared);
  std::vector<std::uint64_t> states{clock->on_hit(prompt[0], 0, seconds(0)), 0};
  std::vector<bool> out;
  clock->carry(prompt, states, 10, seconds(0), out);
  EXPECT_EQ(out, (std::vector<bool>{true, false}));
  clock->carry(prompt, states, 10, seconds(0), out);
  EXPECT_EQ(out, (std::vector<bool>{false, false}));
}

TEST(KvChoice, ByNameOrByPair) {
  EXPECT_EQ(parse_kv_choice("")->admission->name, "first-sight");
  EXPECT_EQ(parse_kv_choice("chats")->eviction->name, "clock");
  EXPECT_EQ(parse_kv_choice("shared")->admission->name, "worth");
  const auto pair = parse_kv_choice("prefix-depth+arrival");
  ASSERT_TRUE(pair);
  EXPECT_EQ(pair->admission->name, "prefix-depth");
  EXPECT_EQ(pair->eviction->name, "arrival");
  for (const auto* wrong : {"worth", "+", "worth+", "+clock", "no+clock", "worth+no", "shared+clock"}) {
    const auto choice = parse_kv_choice(wrong);
    ASSERT_FALSE(choice) << wrong;
    EXPECT_EQ(choice.error().code, Code::invalid);
  }
}

TEST(KvBudget, FillsWithTimeUpToItsSize) {
  KvBudget budget({.bytes_per_day = 86'400, .burst = seconds(10)});  // a byte a second
  EXPECT_TRUE(budget.take(10, seconds(100)));
  EXPECT_FALSE(budget.take(1, seconds(100)));
  EXPECT_TRUE(budget.take(5, seconds(105)));
  EXPECT_DOUBLE_EQ(budget.fill(seconds(1000)), 1.0);
  EXPECT_FALSE(budget.take(11, seconds(2000)));
  budget.spend(15, seconds(2000));  // a debt of 5
  EXPECT_FALSE(budget.take(1, seconds(2005)));
  EXPECT_TRUE(budget.take(1, seconds(2006)));
  budget.give_back(100);
  EXPECT_DOUBLE_EQ(budget.fill(seconds(2006)), 1.0);
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
