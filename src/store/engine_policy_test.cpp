// Policies and budget at work in the engine: what is refused, what is carried forward, and that the budget holds.
#include <gtest/gtest.h>

#include "store/engine_rig_test.h"

namespace artesian {
namespace {

using std::chrono::seconds;

constexpr std::uint64_t block_bytes = 60 * KiB;  // with its header a quarter of a segment's records, at most

class EnginePolicyTest : public testing::Test {
 protected:
  void make(const std::string& policy, std::uint64_t bytes_per_day = 0, std::uint32_t segments = 8) {
    one_.reset();
    engine_.reset();
    device_ = std::make_unique<MemoryDevice>(empty_files(1, segments));
    ASSERT_TRUE(format_store(*device_, small_geometry, some_identity(1)));
    auto engine = Engine::open(*device_, clock_, {.write_bytes_per_day = bytes_per_day});
    ASSERT_TRUE(engine) << engine.error().message;
    engine_ = std::move(*engine);
    auto fields = some_fields();
    fields.policy = policy;
    auto ns = engine_->open_namespace(fields);
    ASSERT_TRUE(ns) << ns.error().message;
    ns_ = *ns;
    one_ = std::make_unique<OneByOne>(*engine_, ns_);
  }

  // Below another block; 16 tokens are a whole one.
  Outcome put(std::uint64_t number, std::uint64_t parent, std::uint32_t tokens = 16) {
    const auto key = key_of(number);
    const auto above = key_of(parent);
    std::vector<std::byte> data(block_bytes);
    fill_block(number, 0, data);
    Put item{.key = key, .parent = above, .data = data, .hints = {.tokens = tokens}};
    engine_->put(ns_, std::span(&item, 1));
    return item.outcome;
  }

  std::size_t look_up(std::initializer_list<std::uint64_t> numbers) {
    std::vector<std::vector<std::byte>> keys;
    for (const std::uint64_t number : numbers) keys.push_back(key_of(number));
    const std::vector<std::span<const std::byte>> spans(keys.begin(), keys.end());
    return engine_->longest_prefix(ns_, spans);
  }

  // Until `count` more segments were reclaimed.
  void push_out(std::uint64_t count) {
    const std::uint64_t until = engine_->stats().segments_reclaimed + count;
    while (engine_->stats().segments_reclaimed < until) {
      ASSERT_EQ(one_->put(next_++, block_bytes), Outcome::stored);
      ASSERT_LT(next_, 2000U);
    }
  }

  ManualClock clock_;
  std::unique_ptr<MemoryDevice> device_;
  std::unique_ptr<Engine> engine_;
  NamespaceId ns_ = 0;
  std::unique_ptr<OneByOne> one_;
  std::uint64_t next_ = 1000;
};

TEST_F(EnginePolicyTest, UnknownPoliciesAreRefusedWithTheNamesThatThereAre) {
  make("");
  auto fields = some_fields("other");
  fields.policy = "second-sighting";
  const auto ns = engine_->open_namespace(fields);
  ASSERT_FALSE(ns);
  EXPECT_EQ(ns.error().code, Code::invalid);
  EXPECT_NE(ns.error().message.find("second-sighting"), std::string::npos);
  EXPECT_NE(ns.error().message.find("arrival"), std::string::npos);
}

TEST_F(EnginePolicyTest, ANamespaceHasItsOwnAdmission) {
  make("second-sighting+clock");
  EXPECT_EQ(one_->put(1, block_bytes), Outcome::rejected);
  EXPECT_EQ(engine_->stats().refused, 1U);
  EXPECT_EQ(engine_->stats().shed, 0U);
  EXPECT_EQ(one_->get(1), Outcome::miss);
  EXPECT_EQ(one_->put(1, block_bytes), Outcome::stored);
  EXPECT_EQ(one_->get(1), Outcome::hit);
  const auto chats = engine_->open_namespace(some_fields("other"));
  ASSERT_TRUE(chats);
  EXPECT_EQ(OneByOne(*engine_, *chats).put(1, block_bytes), Outcome::stored);
}

TEST_F(EnginePolicyTest, LookUpsCountAsSightings) {
  make("second-sighting+clock");
  EXPECT_EQ(look_up({1, 2}), 0U);
  EXPECT_EQ(one_->put(1, block_bytes), Outcome::rejected);
  EXPECT_EQ(look_up({1, 2}), 0U);
  EXPECT_EQ(one_->put(1, block_bytes), Outcome::stored);
  EXPECT_EQ(put(2, 1), Outcome::stored);
  EXPECT_EQ(look_up({1, 2}), 2U);
}

TEST_F(EnginePolicyTest, ASharedTierWritesNeitherOrphansNorEndsOfPrompts) {
  make("shared");
  EXPECT_EQ(look_up({1, 2, 3}), 0U);
  EXPECT_EQ(put(2, 1), Outcome::rejected);
  EXPECT_EQ(one_->put(1, block_bytes), Outcome::stored);
  EXPECT_EQ(put(2, 1), Outcome::stored);
  EXPECT_EQ(put(3, 2, 7), Outcome::rejected);
  EXPECT_EQ(look_up({1, 2, 3}), 2U);
}

TEST_F(EnginePolicyTest, WhatWasHitIsCarriedForwardOnce) {
  make("");
  for (std::uint64_t number = 1; number <= 3; ++number) ASSERT_EQ(one_->put(number, block_bytes), Outcome::stored);
  EXPECT_EQ(one_->get(2), Outcome::hit);
  push_out(1);
  EXPECT_EQ(one_->exists(1), Outcome::miss);
  EXPECT_EQ(one_->exists(2), Outcome::hit);
  EXPECT_EQ(one_->exists(3), Outcome::miss);
  EXPECT_EQ(engine_->stats().carried, 1U);
  push_out(8);  // it was not asked for since
  EXPECT_EQ(one_->exists(2), Outcome::miss);
  EXPECT_EQ(engine_->stats().carried, 1U);
}

TEST_F(EnginePolicyTest, WhatIsExpectedWeighsMoreThanHits) {
  make("");
  for (std::uint64_t number = 1; number <= 3; ++number) ASSERT_EQ(one_->put(number, block_bytes), Outcome::stored);
  EXPECT_EQ(one_->get(1), Outcome::hit);
  const auto over = key_of(1), to_come = key_of(2), absent = key_of(7);
  const std::vector<std::span<const std::byte>> ended{over}, awaited{to_come, absent};
  engine_->expect(ns_, ended, Outlook::ended);
  engine_->expect(ns_, awaited, Outlook::awaited);
  push_out(1);
  EXPECT_EQ(one_->exists(1), Outcome::miss);
  EXPECT_EQ(one_->exists(2), Outcome::hit);
  EXPECT_EQ(one_->exists(3), Outcome::miss);
}

TEST_F(EnginePolicyTest, ArrivalCarriesNothing) {
  make("first-sight+arrival");
  ASSERT_EQ(one_->put(1, block_bytes), Outcome::stored);
  EXPECT_EQ(one_->get(1), Outcome::hit);
  push_out(1);
  EXPECT_EQ(one_->exists(1), Outcome::miss);
  EXPECT_EQ(engine_->stats().carried, 0U);
}

TEST_F(EnginePolicyTest, LeavesGoBeforeTheirRoots) {
  make("");
  ASSERT_EQ(one_->put(1, block_bytes), Outcome::stored);
  ASSERT_EQ(put(2, 1), Outcome::stored);
  EXPECT_EQ(one_->get(2), Outcome::hit);  // the leaf alone: without its root it is of no use
  push_out(1);
  EXPECT_EQ(one_->exists(1), Outcome::miss);
  EXPECT_EQ(one_->exists(2), Outcome::miss);

  make("");
  ASSERT_EQ(one_->put(1, block_bytes), Outcome::stored);
  push_out(1);  // the root is gone, the leaf comes after
  EXPECT_EQ(one_->exists(1), Outcome::miss);
  ASSERT_EQ(put(2, 1), Outcome::stored);
  EXPECT_EQ(one_->get(2), Outcome::hit);
  push_out(9);
  EXPECT_EQ(one_->exists(2), Outcome::miss);
  EXPECT_EQ(engine_->stats().carried, 0U);

  make("");
  ASSERT_EQ(one_->put(1, block_bytes), Outcome::stored);
  ASSERT_EQ(put(2, 1), Outcome::stored);
  EXPECT_EQ(look_up({1, 2}), 2U);
  push_out(1);
  EXPECT_EQ(look_up({1, 2}), 2U);
}

TEST_F(EnginePolicyTest, ReclaimMakesRoomThoughAllIsHit) {
  make("");
  for (std::uint64_t number = 1; number < 200; ++number) {
    ASSERT_EQ(one_->put(number, block_bytes), Outcome::stored) << number;
    ASSERT_EQ(one_->get(number), Outcome::hit) << number;
  }
  const StoreStats stats = engine_->stats();
  EXPECT_GT(stats.carried, 0U);
  EXPECT_LE(stats.bytes_carried, stats.bytes_put + 8 * small_geometry.segment_bytes);
}

TEST_F(EnginePolicyTest, TheBudgetHolds) {
  constexpr std::uint64_t a_second = 100 * KiB;
  make("", a_second * 86'400);
  const std::uint64_t bucket = 900 * a_second;
  const std::uint64_t before = device_->counters().bytes_written;  // making and opening it
  const auto written = [&] { return device_->counters().bytes_written - before; };
  std::uint64_t refused = 0;
  for (std::uint64_t number = 0; number < 4000; ++number) {
    refused += one_->put(number, block_bytes) == Outcome::rejected ? 1 : 0;
    one_->get(number);  // so that there is something to carry forward
    clock_.advance(std::chrono::milliseconds(100));
    const auto passed = std::chrono::duration<double>(clock_.now()).count();
    const double allowed = static_cast<double>(bucket) + passed * static_cast<double>(a_second);
    // Frames are written whatever there is, and paid for afterwards.
    ASSERT_LE(static_cast<double>(written()), allowed + 64 * KiB) << number;
  }
  EXPECT_GT(refused, 1000U);
  EXPECT_EQ(engine_->stats().refused, refused);
  EXPECT_GT(engine_->stats().carried, 0U);
  EXPECT_GT(written(), bucket + 380 * a_second);  // and is spent
  EXPECT_EQ(engine_->stats().write_bytes_per_day, a_second * 86'400);
}

TEST_F(EnginePolicyTest, WhatWasThereBeforeOpeningHasToBeAskedForToStay) {
  make("");
  ASSERT_EQ(one_->put(1, block_bytes), Outcome::stored);
  ASSERT_EQ(one_->put(2, block_bytes), Outcome::stored);
  EXPECT_EQ(one_->get(1), Outcome::hit);
  ASSERT_TRUE(engine_->flush());
  one_.reset();
  engine_.reset();
  auto engine = Engine::open(*device_, clock_, {});
  ASSERT_TRUE(engine) << engine.error().message;
  engine_ = std::move(*engine);
  ns_ = engine_->open_namespace(some_fields()).value();
  one_ = std::make_unique<OneByOne>(*engine_, ns_);
  EXPECT_EQ(one_->get(2), Outcome::hit);
  push_out(1);
  EXPECT_EQ(one_->exists(1), Outcome::miss);
  EXPECT_EQ(one_->exists(2), Outcome::hit);
}

}  // namespace
}  // namespace artesian
