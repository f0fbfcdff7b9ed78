#include "gateway/slots.h"

#include <gtest/gtest.h>

#include <numeric>

namespace artesian {
namespace {

std::vector<Token> sequence(std::size_t count, Token first = 0) {
  std::vector<Token> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

constexpr CostFacts fast_flash{
    .prefill_tokens_per_second = 100, .restore_bytes_per_second = 1e9, .token_bytes = 20'000};

TEST(Slots, WhatASlotHoldsIsUsedFirst) {
  const std::vector<Slot> slots = {{.tokens = sequence(50, 900), .used = 1}, {.tokens = sequence(300), .used = 2}};
  const auto choice = choose_slot(slots, sequence(400), {}, 300, fast_flash);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->slot, 1);
  EXPECT_EQ(choice->held, 300U);
  EXPECT_FALSE(choice->restore);
}

TEST(Slots, AStoredContextGoesToTheSlotThatLosesLeast) {
  const std::vector<Slot> slots = {
      {.tokens = sequence(50, 900), .used = 3}, {.tokens = sequence(60, 700), .used = 2}, {.busy = true}};
  auto choice = choose_slot(slots, sequence(400), {}, 300, fast_flash);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->slot, 1);
  EXPECT_TRUE(choice->restore);
  const std::vector<Slot> with_empty = {{.tokens = sequence(50, 900), .used = 1}, {.used = 9}};
  EXPECT_EQ(choose_slot(with_empty, sequence(400), {}, 300, fast_flash)->slot, 1);
}

TEST(Slots, ASessionThatHasEndedGivesWayFirstAndOneThatPausesLast) {
  std::vector<Slot> slots = {{.tokens = sequence(60, 700), .used = 1, .outlook = Outlook::awaited},
                             {.tokens = sequence(60, 800), .used = 2},
                             {.tokens = sequence(60, 900), .used = 3, .outlook = Outlook::ended}};
  const auto chosen = [&] { return choose_slot(slots, sequence(400), {}, 300, fast_flash)->slot; };
  EXPECT_EQ(chosen(), 2);
  slots[2].busy = true;
  EXPECT_EQ(chosen(), 1);
  slots[1].busy = true;
  EXPECT_EQ(chosen(), 0);
}

TEST(Slots, AnotherTenantsSlotHoldsNothing) {
  const std::vector<Slot> slots = {{.tokens = sequence(300), .tenant = *tenant_root("one")}};
  EXPECT_EQ(choose_slot(slots, sequence(300), *tenant_root("two"), 0, fast_flash)->held, 0U);
}

TEST(Slots, ASlotThatSharesNextToNothingIsLeftAlone) {
  const std::vector<Slot> slots = {{.tokens = sequence(300), .used = 9}, {.tokens = sequence(40, 500), .used = 1}};
  EXPECT_EQ(choose_slot(slots, sequence(20), {}, 0, fast_flash)->slot, 0);
  auto other = sequence(20);
  const auto rest = sequence(400, 5000);
  other.insert(other.end(), rest.begin(), rest.end());
  EXPECT_EQ(choose_slot(slots, other, {}, 0, fast_flash)->slot, 1);
  // What it shares is read back into the slot that is taken, as it is after a restart.
  const auto stored = choose_slot(slots, other, {}, 20, fast_flash);
  EXPECT_EQ(stored->slot, 1);
  EXPECT_TRUE(stored->restore);
}

TEST(Slots, AllBusyMeansToWait) {
  const std::vector<Slot> slots = {{.busy = true}};
  EXPECT_FALSE(choose_slot(slots, sequence(5), {}, 0, fast_flash));
}

TEST(Slots, RestoringMustBeFasterThanComputing) {
  EXPECT_TRUE(restore_pays(fast_flash, 0, 300));
  EXPECT_FALSE(restore_pays(fast_flash, 299, 300, true));
  EXPECT_TRUE(restore_pays(fast_flash, 200, 300, true));
  EXPECT_TRUE(restore_pays(fast_flash, 299, 300));   // 10 ms of computing; 2 of the calls and 6 of reading
  EXPECT_FALSE(restore_pays(fast_flash, 499, 500));  // 10 of reading
  const CostFacts slow_flash{.prefill_tokens_per_second = 1e4, .restore_bytes_per_second = 1e6, .token_bytes = 20'000};
  EXPECT_FALSE(restore_pays(slow_flash, 0, 300));
  EXPECT_TRUE(restore_pays({}, 0, 300));
  EXPECT_FALSE(restore_pays({}, 300, 300));
}

}  // namespace
}  // namespace artesian
