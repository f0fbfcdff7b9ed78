#include "policy/kv_load.h"

#include <gtest/gtest.h>

#include <vector>

namespace artesian {
namespace {

const std::vector<KvLoadBlock> prefix(10, KvLoadBlock{1'000'000, 100});

TEST(KvLoad, AllWhenTheDeviceIsFaster) {
  EXPECT_EQ(kv_tokens_worth_loading(prefix, {.bytes_per_second = 1e9, .prefill_tokens_per_second = 1000}), 1000U);
}

TEST(KvLoad, NoneWhenTheEngineIsFaster) {
  EXPECT_EQ(kv_tokens_worth_loading(prefix, {.bytes_per_second = 1e6, .prefill_tokens_per_second = 1000}), 0U);
}

TEST(KvLoad, NoneBehindALongQueue) {
  KvLoadFacts facts{.bytes_per_second = 1e9, .prefill_tokens_per_second = 1000};
  facts.queued_bytes = 2'000'000'000;  // two seconds; computing all takes one
  EXPECT_EQ(kv_tokens_worth_loading(prefix, facts), 0U);
  facts.queued_bytes = 500'000'000;
  EXPECT_EQ(kv_tokens_worth_loading(prefix, facts), 1000U);
}

TEST(KvLoad, StopsBeforeBlocksThatCostMoreThanTheyAreWorth) {
  std::vector<KvLoadBlock> blocks = prefix;
  blocks[6].bytes = 500'000'000;  // half a second for 100 tokens; the blocks behind it save 0.3
  EXPECT_EQ(kv_tokens_worth_loading(blocks, {.bytes_per_second = 1e9, .prefill_tokens_per_second = 1000}), 600U);
}

TEST(KvLoad, LongPrefixesCostMoreToCompute) {
  KvLoadFacts facts{.bytes_per_second = 9e6, .prefill_tokens_per_second = 1000};
  EXPECT_EQ(kv_tokens_worth_loading(prefix, facts), 0U);
  facts.attention_tokens = 500;
  EXPECT_EQ(kv_tokens_worth_loading(prefix, facts), 1000U);
}

TEST(KvLoad, AllWhenASpeedIsUnknown) {
  EXPECT_EQ(kv_tokens_worth_loading(prefix, {.prefill_tokens_per_second = 1000}), 1000U);
  EXPECT_EQ(kv_tokens_worth_loading(prefix, {.bytes_per_second = 1}), 1000U);
  EXPECT_EQ(kv_tokens_worth_loading({}, {.bytes_per_second = 1, .prefill_tokens_per_second = 1}), 0U);
}

}  // namespace
}  // namespace artesian
