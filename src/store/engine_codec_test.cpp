// Blocks that are coded on flash, and blocks that are brought into memory ahead of time.
#include <gtest/gtest.h>

#include <random>

#include "store/engine.h"
#include "store/engine_rig_test.h"

namespace artesian {
namespace {

// Numbers as KV has them, around zero, as BF16: the upper half of a float.
std::vector<std::byte> bf16_block(std::uint64_t bytes, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> value(0, 1);
  std::vector<std::byte> block(bytes);
  for (std::size_t at = 0; at + 1 < bytes; at += 2) {
    const float number = value(random);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &number, sizeof(bits));
    const auto upper = static_cast<std::uint16_t>(bits >> 16);
    std::memcpy(block.data() + at, &upper, 2);
  }
  return block;
}

class EngineCodecTest : public testing::TestWithParam<bool> {
 protected:
  StoreKind kind_{GetParam()};

  void open(const std::string& codec, std::uint64_t memory_bytes = 0) {
    if (device_ == nullptr) {
      device_ = std::make_unique<MemoryDevice>(empty_files(1, 16));
      ASSERT_TRUE(format_store(*device_, small_geometry, kind_.identity(1)));
    }
    engine_.reset();
    EngineSettings settings;
    settings.memory_bytes = memory_bytes;
    settings.memory_on_put = settings.memory_on_get = false;
    auto engine = Engine::open(*device_, clock_, kind_.settings(settings));
    ASSERT_TRUE(engine) << engine.error().message;
    engine_ = std::move(*engine);
    NamespaceFields fields = some_fields();
    fields.codec = codec;
    ns_ = engine_->open_namespace(fields).value();
  }

  Outcome put(std::uint64_t number, std::span<const std::byte> data, std::span<const std::uint32_t> extents = {}) {
    const auto key = key_of(number);
    Put item{.key = key, .data = data, .extents = extents};
    engine_->put(ns_, std::span(&item, 1));
    return item.outcome;
  }

  // Into pieces of odd sizes, so that no extent lies in one of them.
  bool comes_back(std::uint64_t number, std::span<const std::byte> data) {
    const auto key = key_of(number);
    for (const std::size_t piece : {data.size(), std::size_t{1001}, std::size_t{4096}}) {
      std::vector<std::byte> room(data.size(), std::byte{0xEE});
      std::vector<std::span<std::byte>> pieces;
      for (std::size_t at = 0; at < room.size(); at += piece) {
        pieces.push_back(std::span(room).subspan(at, std::min(piece, room.size() - at)));
      }
      Get item{.key = key, .pieces = pieces};
      engine_->get(ns_, std::span(&item, 1));
      if (item.outcome != Outcome::hit || item.bytes != data.size() || !std::ranges::equal(room, data)) return false;
    }
    return true;
  }

  ManualClock clock_;
  std::unique_ptr<MemoryDevice> device_;
  std::unique_ptr<Engine> engine_;
  NamespaceId ns_ = 0;
};

TEST_P(EngineCodecTest, Bf16TakesLessRoomAndComesBackAsItWas) {
  open("exponent");
  const auto block = bf16_block(160'000, 1);
  const std::vector<std::uint32_t> layers{40'000, 40'001, 1, 79'998};
  ASSERT_EQ(put(1, block), Outcome::stored);
  ASSERT_EQ(put(2, block, layers), Outcome::stored);
  EXPECT_TRUE(comes_back(1, block));
  EXPECT_TRUE(comes_back(2, block));
  const StoreStats stats = engine_->stats();
  EXPECT_GT(stats.bytes_saved, 2 * block.size() / 4);
  EXPECT_LT(stats.live_bytes, 2 * block.size() * 3 / 4);
  open("none");  // what a block is coded with stands in its record
  EXPECT_TRUE(comes_back(1, block));
  EXPECT_TRUE(comes_back(2, block));
  EXPECT_EQ(engine_->verify({})->bad, 0U);
}

TEST_P(EngineCodecTest, WhatDoesNotShrinkIsStoredAsItIs) {
  open("exponent");
  std::vector<std::byte> noise(100'000);
  fill_block(1, 1, noise);
  ASSERT_EQ(put(1, noise), Outcome::stored);
  const auto little = bf16_block(300, 2);  // a page is a page
  ASSERT_EQ(put(2, little), Outcome::stored);
  EXPECT_EQ(engine_->stats().bytes_saved, 0U);
  EXPECT_TRUE(comes_back(1, noise));
  EXPECT_TRUE(comes_back(2, little));
}

TEST_P(EngineCodecTest, CodedBlocksAreCarriedForwardAsTheyAre) {
  open("exponent");
  const auto kept = bf16_block(120'000, 3);
  ASSERT_EQ(put(0, kept), Outcome::stored);
  const auto key = key_of(0);
  Probe pin{.key = key};
  engine_->pin(ns_, std::span(&pin, 1));
  for (std::uint64_t number = 1; number < 80; ++number) {
    ASSERT_EQ(put(number, bf16_block(100'000, static_cast<unsigned>(number))), Outcome::stored);
  }
  EXPECT_GT(engine_->stats().carried, 0U);
  EXPECT_TRUE(comes_back(0, kept));
  open("exponent");
  EXPECT_TRUE(comes_back(0, kept));
}

TEST_P(EngineCodecTest, AnUnknownCodecIsRefused) {
  open("none");
  NamespaceFields fields = some_fields("other");
  fields.codec = "zip";
  const auto ns = engine_->open_namespace(fields);
  ASSERT_FALSE(ns);
  EXPECT_EQ(ns.error().message, "'zip' is no codec of a store's");
}

TEST_P(EngineCodecTest, AStagedBlockIsReadFromMemory) {
  for (const std::string codec : {"none", "exponent"}) {
    engine_.reset();
    device_.reset();
    open(codec, 1 * MiB);
    const auto block = bf16_block(100'000, 4);
    ASSERT_EQ(put(1, block), Outcome::stored);
    const auto key = key_of(1), absent = key_of(2);
    std::array<Probe, 2> items{Probe{.key = key}, Probe{.key = absent}};
    bool done = false;
    engine_->stage(ns_, items, {}, [&] { done = true; });
    while (!done) engine_->poll();
    EXPECT_EQ(items[0].outcome, Outcome::hit);
    EXPECT_EQ(items[1].outcome, Outcome::miss);
    EXPECT_EQ(engine_->stats().staged, 1U);
    EXPECT_EQ(engine_->stats().hits, 0U);
    EXPECT_TRUE(comes_back(1, block));
    EXPECT_EQ(engine_->stats().memory_hits, 3U);
  }
}

TEST_P(EngineCodecTest, StagingKnowsItsLimits) {
  open("none", 64 * KiB);
  const auto block = bf16_block(100'000, 5);
  ASSERT_EQ(put(1, block), Outcome::stored);
  const auto key = key_of(1);
  Probe item{.key = key};
  const auto stage = [&](const Batch& batch) {
    bool done = false;
    engine_->stage(ns_, std::span(&item, 1), batch, [&] { done = true; });
    while (!done) engine_->poll();
    return item.outcome;
  };
  EXPECT_EQ(stage({}), Outcome::rejected);  // more than half of the tier
  clock_.advance(std::chrono::seconds(1));
  EXPECT_EQ(stage({.deadline = std::chrono::milliseconds(1)}), Outcome::late);
  open("none");
  EXPECT_EQ(stage({}), Outcome::rejected);  // no tier at all
}

INSTANTIATE_TEST_SUITE_P(Stores, EngineCodecTest, testing::Bool(), StoreKind::name);

}  // namespace
}  // namespace artesian
