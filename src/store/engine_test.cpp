#include "store/engine.h"

#include <gtest/gtest.h>

#include <map>

#include "device/sim_device.h"
#include "store/engine_rig_test.h"

namespace artesian {
namespace {

class EngineTest : public testing::TestWithParam<bool>, protected EngineRig {
 protected:
  EngineTest() : EngineRig(GetParam()) {}
};

constexpr std::uint64_t first_record = store_data_offset + store_page;

TEST_P(EngineTest, BlocksOfAnySizeComeBack) {
  make();
  std::uint64_t number = 0;
  for (const std::uint64_t bytes : {std::uint64_t{1}, store_page - 1, store_page, store_page + 1, 64 * KiB,
                                    100 * KiB + 77, small_geometry.block_bytes_max}) {
    EXPECT_EQ(one_->get(number), Outcome::miss);
    EXPECT_EQ(one_->exists(number), Outcome::miss);
    ASSERT_EQ(one_->put(number, bytes), Outcome::stored);
    EXPECT_EQ(one_->exists(number), Outcome::hit);
    ASSERT_EQ(one_->get(number), Outcome::hit);
    EXPECT_EQ(one_->bytes(), bytes);
    ++number;
  }
  EXPECT_EQ(engine_->stats().blocks, number);
  EXPECT_EQ(engine_->stats().hits, number);
}

TEST_P(EngineTest, BuffersMayLieAnyhow) {
  make();
  auto memory = Arena::reserve(512 * KiB).value();
  constexpr std::uint64_t bytes = 50'000;  // 13 pages
  std::vector<std::byte> block(bytes);
  fill_block(1, 0, block);
  const auto key = key_of(1);
  const auto cut = [&](std::span<std::byte> whole, std::vector<std::uint64_t> sizes) {
    std::vector<std::span<std::byte>> pieces;
    std::uint64_t at = 0;
    for (const std::uint64_t size : sizes) {
      pieces.push_back(whole.subspan(at, size));
      at += align_up(size, 16) + 4096;
    }
    return pieces;
  };
  const std::vector<std::vector<std::uint64_t>> ways = {{bytes},
                                                        {bytes + 1},
                                                        {53248},
                                                        {60000},
                                                        {8192, 41808},
                                                        {8192, 4096, 40960},
                                                        {100, 49900},
                                                        {1, 1, 1, 49997},
                                                        {49999, 1},
                                                        {4096, 4096, 41808, 10000},
                                                        {},
                                                        {0, bytes},
                                                        {bytes, 0}};
  for (const auto& sizes : ways) {
    for (const std::uint64_t shift : {0, 1, 512, 4095}) {
      auto pieces = cut(memory.span().subspan(shift), sizes);
      std::ranges::fill(memory.span(), std::byte{0xEE});
      Get get{.key = key, .pieces = pieces};
      if (sizes.empty()) get = {.key = key, .buffer = memory.span().subspan(shift, bytes)};
      // put from there, then get into the like
      std::vector<std::span<const std::byte>> from;
      std::uint64_t at = 0;
      for (const auto& piece : pieces) {
        const auto part = piece.first(std::min<std::uint64_t>(piece.size(), bytes - at));
        std::ranges::copy(std::span(block).subspan(at, part.size()), part.begin());
        from.push_back(part);
        at += part.size();
      }
      Put put{.key = key, .pieces = from};
      if (sizes.empty()) put = {.key = key, .data = block};
      engine_->put(ns_, std::span(&put, 1));
      ASSERT_EQ(put.outcome, Outcome::stored);
      std::ranges::fill(memory.span(), std::byte{0xEE});
      engine_->get(ns_, std::span(&get, 1));
      ASSERT_EQ(get.outcome, Outcome::hit);
      EXPECT_EQ(get.bytes, bytes);
      std::vector<std::byte> back(bytes);
      if (sizes.empty()) pieces = {get.buffer};
      copy_out<std::byte>(pieces, 0, back);
      EXPECT_EQ(back, block);
      ASSERT_EQ(one_->erase(1), Outcome::hit);
    }
  }
}

TEST_P(EngineTest, EachBlockOfABatchHasItsOwnAnswer) {
  make();
  ASSERT_EQ(one_->put(1, 10'000), Outcome::stored);
  ASSERT_EQ(one_->put(2, 10'000), Outcome::stored);
  auto memory = Arena::reserve(256 * KiB).value();
  const auto one = key_of(1), two = key_of(2), three = key_of(3);
  const std::vector<std::byte> long_key(256);
  const auto room = [&](std::uint64_t place, std::uint64_t bytes) {
    return memory.span().subspan(place * 32 * KiB, bytes);
  };
  std::vector<Get> gets{{.key = one, .buffer = room(0, 16 * KiB)},  {.key = three, .buffer = room(1, 16 * KiB)},
                        {.key = two, .buffer = room(2, 9'999)},     {.key = two, .buffer = room(3, 10'000)},
                        {.key = long_key, .buffer = room(4, 4096)}, {.key = {}, .buffer = room(5, 4096)},
                        {.key = one, .buffer = room(6, 100)}};
  engine_->get(ns_, gets);
  const std::vector<Outcome> right{Outcome::hit,     Outcome::miss,    Outcome::invalid, Outcome::hit,
                                   Outcome::invalid, Outcome::invalid, Outcome::invalid};
  for (std::size_t i = 0; i < gets.size(); ++i) EXPECT_EQ(gets[i].outcome, right[i]) << i;
  EXPECT_TRUE(is_block(1, 0, room(0, 10'000)));
  EXPECT_TRUE(is_block(2, 0, room(3, 10'000)));

  const std::vector<std::byte> data(100), huge(small_geometry.block_bytes_max + 1), attributes(1025);
  const std::vector<std::uint32_t> bad_extents{50, 51}, good_extents{50, 50};
  std::vector<Put> puts{{.key = three, .data = data},
                        {.key = one, .data = data},
                        {.key = key_of(4), .data = huge},
                        {.key = long_key, .data = data},
                        {.key = two, .attributes = attributes, .data = data},
                        {.key = two, .data = {}},
                        {.key = two, .data = data, .extents = bad_extents}};
  const auto five = key_of(5);
  puts.push_back({.key = five, .data = data, .extents = good_extents});
  puts[2].key = two;
  engine_->put(ns_, puts);
  const std::vector<Outcome> stored{Outcome::stored,  Outcome::present, Outcome::invalid, Outcome::invalid,
                                    Outcome::invalid, Outcome::invalid, Outcome::invalid, Outcome::stored};
  for (std::size_t i = 0; i < puts.size(); ++i) EXPECT_EQ(puts[i].outcome, stored[i]) << i;
}

TEST_P(EngineTest, APutOfWhatIsThereWritesNothing) {
  make();
  ASSERT_EQ(one_->put(1, 10'000), Outcome::stored);
  const auto written = device_->counters().bytes_written;
  EXPECT_EQ(one_->put(1, 10'000, 1), Outcome::present);
  EXPECT_EQ(device_->counters().bytes_written, written);
  EXPECT_EQ(one_->get(1), Outcome::hit);
}

TEST_P(EngineTest, OfTwoPutsOfOneKeyInABatchOneIsStored) {
  make();
  std::vector<std::byte> first(5000), second(5000);
  fill_block(1, 0, first);
  fill_block(1, 1, second);
  const auto key = key_of(1);
  std::vector<Put> puts{{.key = key, .data = first}, {.key = key, .data = second}};
  engine_->put(ns_, puts);
  EXPECT_EQ(puts[0].outcome, Outcome::stored);
  EXPECT_EQ(puts[1].outcome, Outcome::rejected);
  EXPECT_EQ(one_->get(1), Outcome::hit);
}

TEST_P(EngineTest, WhatWasStoredIsThereAfterReopening) {
  make(2, 8);
  for (std::uint64_t i = 0; i < 20; ++i) ASSERT_EQ(one_->put(i, 1000 + i * 3000), Outcome::stored);
  for (std::uint64_t i = 0; i < 20; i += 3) ASSERT_EQ(one_->erase(i), Outcome::hit);
  ASSERT_TRUE(engine_->flush());
  for (int round = 0; round < 3; ++round) {
    reopen();
    for (std::uint64_t i = 0; i < 20; ++i) {
      EXPECT_EQ(one_->get(i), i % 3 == 0 ? Outcome::miss : Outcome::hit) << i << " in round " << round;
    }
    EXPECT_EQ(engine_->stats().records_skipped, 0U);
  }
  // what was erased can be put anew, and then it is that
  ASSERT_EQ(one_->put(3, 5000, 7), Outcome::stored);
  ASSERT_TRUE(engine_->flush());
  reopen();
  EXPECT_EQ(one_->get(3, {7}), Outcome::hit);
}

TEST_P(EngineTest, ReopeningAgainAndAgainDoesNotEatSegments) {
  make(1, 8);
  for (std::uint64_t i = 0; i < 40; ++i) {
    ASSERT_EQ(one_->put(i, 4096), Outcome::stored);
    reopen();
  }
  EXPECT_GE(engine_->stats().segments_free, 5U);
  for (std::uint64_t i = 0; i < 40; ++i) EXPECT_EQ(one_->get(i), Outcome::hit);
}

TEST_P(EngineTest, NamespacesDoNotSeeEachOther) {
  make();
  ASSERT_EQ(one_->put(1, 5000), Outcome::stored);
  auto fields = some_fields();
  fields.weights = "sha256:2";
  const auto other = engine_->open_namespace(fields);
  ASSERT_TRUE(other);
  OneByOne second(*engine_, *other);
  EXPECT_EQ(second.get(1), Outcome::miss);
  EXPECT_EQ(second.exists(1), Outcome::miss);
  ASSERT_EQ(second.put(1, 5000, 9), Outcome::stored);
  EXPECT_EQ(one_->get(1), Outcome::hit);
  EXPECT_EQ(second.get(1, {9}), Outcome::hit);
  EXPECT_EQ(*engine_->open_namespace(fields), *other);
  EXPECT_EQ(engine_->open_namespace({.model = "m"}).error().code, Code::invalid);
}

TEST_P(EngineTest, AnErasedNamespaceIsEmptyAtOnceAndForEver) {
  make();
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_EQ(one_->put(i, 5000), Outcome::stored);
  ASSERT_TRUE(engine_->flush());
  ASSERT_TRUE(engine_->erase_namespace(ns_));
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(one_->get(i), Outcome::miss);
  ASSERT_EQ(one_->put(1, 5000, 4), Outcome::stored);
  reopen();
  EXPECT_EQ(one_->get(1, {4}), Outcome::hit);
  EXPECT_EQ(one_->get(2), Outcome::miss);
  std::size_t listed = 0;
  ASSERT_TRUE(engine_->list(ns_, [&](const BlockFacts&) { return ++listed > 0; }));
  EXPECT_EQ(listed, 1U);
}

TEST_P(EngineTest, TheOldestGiveWayAndTheRestIsRight) {
  make(2, 8);
  constexpr std::uint64_t many = 300;
  for (std::uint64_t i = 0; i < many; ++i) ASSERT_EQ(one_->put(i, 40'000), Outcome::stored) << i;
  const auto stats = engine_->stats();
  EXPECT_GT(stats.segments_reclaimed, 20U);
  EXPECT_EQ(stats.evicted + stats.blocks, many);
  EXPECT_LE(stats.live_bytes, stats.capacity_bytes);
  std::uint64_t hits = 0;
  for (std::uint64_t i = 0; i < many; ++i) hits += one_->get(i) == Outcome::hit ? 1 : 0;
  EXPECT_EQ(hits, stats.blocks);
  EXPECT_EQ(one_->get(many - 1), Outcome::hit);
  ASSERT_TRUE(engine_->flush());
  reopen();
  for (std::uint64_t i = 0; i < many; ++i) hits -= one_->get(i) == Outcome::hit ? 1 : 0;
  EXPECT_EQ(hits, 0U);
}

// Many puts at once beside much that is carried forward: they leave room for it.
TEST_P(EngineTest, PinnedBlocksStayBesideManyPutsAtOnce) {
  make(1, 8);
  constexpr std::uint64_t pinned = 12, bytes = 30'000;
  for (std::uint64_t i = 0; i < pinned; ++i) {
    ASSERT_EQ(one_->put(i, bytes), Outcome::stored);
    ASSERT_EQ(one_->pin(i), Outcome::hit);
  }
  std::vector<std::byte> data(bytes, std::byte{1});
  std::uint64_t next = 1000;
  for (int round = 0; round < 40; ++round) {
    std::vector<std::vector<std::byte>> keys;
    for (int i = 0; i < 16; ++i) keys.push_back(key_of(next++));
    std::vector<Put> items;
    for (const auto& key : keys) items.push_back({.key = key, .data = data});
    engine_->put(ns_, items);
    for (const Put& item : items) EXPECT_EQ(item.outcome, Outcome::stored);
  }
  EXPECT_GT(engine_->stats().carried, 100U);
  for (std::uint64_t i = 0; i < pinned; ++i) EXPECT_EQ(one_->get(i), Outcome::hit) << i;
}

TEST_P(EngineTest, PinnedBlocksStay) {
  make(1, 8);
  ASSERT_EQ(one_->put(1000, 30'000), Outcome::stored);
  ASSERT_EQ(one_->put(1001, 30'000), Outcome::stored);
  ASSERT_EQ(one_->pin(1000), Outcome::hit);
  ASSERT_EQ(one_->pin(1000), Outcome::hit);
  ASSERT_EQ(one_->pin(1001), Outcome::hit);
  EXPECT_EQ(one_->pin(1002), Outcome::miss);
  for (std::uint64_t i = 0; i < 100; ++i) ASSERT_EQ(one_->put(i, 40'000), Outcome::stored);
  EXPECT_EQ(one_->get(1000), Outcome::hit);
  EXPECT_EQ(one_->get(1001), Outcome::hit);
  EXPECT_GE(engine_->stats().carried, 4U);
  one_->unpin(1000);
  one_->unpin(1001);
  for (std::uint64_t i = 100; i < 200; ++i) ASSERT_EQ(one_->put(i, 40'000), Outcome::stored);
  EXPECT_EQ(one_->get(1000), Outcome::hit);
  EXPECT_EQ(one_->get(1001), Outcome::miss);
  // pins have their limit: a quarter of the store
  std::uint64_t pinned = 0;
  for (std::uint64_t i = 100; i < 200; ++i) pinned += one_->pin(i) == Outcome::hit ? 1 : 0;
  EXPECT_GT(pinned, 5U);
  EXPECT_LT(pinned, 15U);
}

TEST_P(EngineTest, ErasedBlocksStayErasedThroughReclaim) {
  make(1, 6);
  std::uint64_t next = 100;
  for (std::uint64_t round = 0; round < 30; ++round) {
    ASSERT_EQ(one_->put(1, 20'000, round), Outcome::stored);
    ASSERT_EQ(one_->get(1, {round}), Outcome::hit);
    ASSERT_EQ(one_->erase(1), Outcome::hit);
    for (int i = 0; i < 5; ++i) ASSERT_EQ(one_->put(next++, 30'000), Outcome::stored);
    ASSERT_TRUE(engine_->flush());
    reopen();
    EXPECT_EQ(one_->get(1), Outcome::miss) << round;
  }
}

TEST_P(EngineTest, LongestPrefixCountsFromTheFront) {
  make();
  std::vector<std::vector<std::byte>> keys;
  for (std::uint64_t i = 0; i < 6; ++i) keys.push_back(key_of(i));
  const std::vector<std::span<const std::byte>> spans(keys.begin(), keys.end());
  EXPECT_EQ(engine_->longest_prefix(ns_, spans), 0U);
  for (const std::uint64_t i : {0, 1, 2, 4}) ASSERT_EQ(one_->put(i, 5000), Outcome::stored);
  EXPECT_EQ(engine_->longest_prefix(ns_, spans), 3U);
  EXPECT_EQ(engine_->longest_prefix(ns_, std::span(spans).subspan(4)), 1U);
  ASSERT_EQ(one_->put(3, 5000), Outcome::stored);
  EXPECT_EQ(engine_->longest_prefix(ns_, spans), 5U);
}

TEST_P(EngineTest, ADamagedBlockIsCorruptOnceAndThenAMissAndItsNeighboursLive) {
  make();
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_EQ(one_->put(i, 10'000), Outcome::stored);  // 4 pages each
  for (const std::uint64_t offset : {first_record + 60, first_record + 4 * store_page + store_page + 9'999}) {
    flip(offset);
  }
  EXPECT_EQ(one_->get(0), Outcome::corrupt);
  EXPECT_EQ(one_->get(1), Outcome::corrupt);
  EXPECT_EQ(one_->get(2), Outcome::hit);
  EXPECT_EQ(one_->get(0), Outcome::miss);
  EXPECT_EQ(engine_->stats().corrupt, 2U);
  ASSERT_EQ(one_->put(0, 10'000, 5), Outcome::stored);
  EXPECT_EQ(one_->get(0, {5}), Outcome::hit);
  ASSERT_TRUE(engine_->flush());
  reopen();
  EXPECT_EQ(engine_->stats().records_skipped, 2U);
  EXPECT_EQ(one_->get(0, {5}), Outcome::hit);
  EXPECT_EQ(one_->get(1), Outcome::miss);
  EXPECT_EQ(one_->get(2), Outcome::hit);
}

TEST_P(EngineTest, ADamagedIndexOrFooterIsMadeUpForByWalking) {
  make(1, 8);
  for (std::uint64_t i = 0; i < 30; ++i) ASSERT_EQ(one_->put(i, 20'000), Outcome::stored);
  ASSERT_TRUE(engine_->flush());
  const std::uint64_t first_end = store_data_offset + small_geometry.segment_bytes;
  flip(first_end - store_page - 4000);                               // the index of the first segment
  flip(first_end + small_geometry.segment_bytes - store_page + 20);  // the footer of the second
  reopen();
  for (std::uint64_t i = 0; i < 30; ++i) EXPECT_EQ(one_->get(i), Outcome::hit) << i;
}

TEST_P(EngineTest, WithoutItsHeaderASegmentIsLostAndNothingElse) {
  make(1, 8);
  for (std::uint64_t i = 0; i < 20; ++i) ASSERT_EQ(one_->put(i, 20'000), Outcome::stored);
  ASSERT_TRUE(engine_->flush());
  const auto before = engine_->stats().blocks;
  flip(store_data_offset + 20);
  reopen();
  EXPECT_EQ(engine_->stats().blocks, before - 10);
  for (std::uint64_t i = 0; i < 20; ++i) EXPECT_EQ(one_->get(i), i < 10 ? Outcome::miss : Outcome::hit) << i;
}

TEST_P(EngineTest, EitherSuperblockIsEnough) {
  make();
  ASSERT_EQ(one_->put(1, 5000), Outcome::stored);
  flip(superblock_offsets[0] + 100);
  reopen();
  EXPECT_EQ(one_->get(1), Outcome::hit);  // and both are good again
  flip(superblock_offsets[1] + 100);
  reopen();
  EXPECT_EQ(one_->get(1), Outcome::hit);
  engine_.reset();
  flip(superblock_offsets[0] + 100);
  flip(superblock_offsets[1] + 100);
  const auto refused = Engine::open(*device_, clock_, kind_.settings(settings_));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::corrupt);
  EXPECT_NE(refused.error().message.find("path 0"), std::string::npos) << refused.error().message;
}

TEST_P(EngineTest, ALostPathTakesItsBlocksAndNothingElse) {
  make(2, 8);
  for (std::uint64_t i = 0; i < 20; ++i) ASSERT_EQ(one_->put(i, 20'000), Outcome::stored);
  ASSERT_TRUE(engine_->flush());
  engine_.reset();
  flip(superblock_offsets[0] + 100);
  flip(superblock_offsets[1] + 100);
  std::string said;
  settings_.report = [&](std::string_view text) { said = text; };
  reopen();
  EXPECT_NE(said.find("path 0"), std::string::npos) << said;
  std::uint64_t hits = 0;
  for (std::uint64_t i = 0; i < 20; ++i) hits += one_->get(i) == Outcome::hit ? 1 : 0;
  EXPECT_EQ(hits, 10U);
  EXPECT_EQ(one_->put(99, 20'000), Outcome::stored);
}

TEST_P(EngineTest, AnotherStoresRecordsAreNone) {
  make();
  ASSERT_EQ(one_->put(1, 5000), Outcome::stored);
  ASSERT_TRUE(engine_->flush());
  auto stolen = Arena::reserve(small_geometry.segment_bytes).value();
  raw(IoOp::read, 0, store_data_offset, stolen.span());
  engine_.reset();
  device_ = std::make_unique<MemoryDevice>(empty_files(1, 8));
  ASSERT_TRUE(format_store(*device_, small_geometry, kind_.identity(1, 2)));
  raw(IoOp::write, 0, store_data_offset, stolen.span());
  reopen();
  EXPECT_EQ(one_->get(1), Outcome::miss);
  EXPECT_EQ(engine_->stats().blocks, 0U);
}

TEST_P(EngineTest, WhatWaitsBeyondItsDeadlineIsLate) {
  make();
  ASSERT_EQ(one_->put(1, 5000), Outcome::stored);
  clock_.advance(std::chrono::seconds(5));
  auto memory = Arena::reserve(16 * KiB).value();
  const auto key = key_of(1), other = key_of(2);
  Get get{.key = key, .buffer = memory.span()};
  engine_->get(ns_, std::span(&get, 1), {.deadline = std::chrono::seconds(4)});
  EXPECT_EQ(get.outcome, Outcome::late);
  Put put{.key = other, .data = memory.span()};
  engine_->put(ns_, std::span(&put, 1), {.deadline = std::chrono::seconds(5)});
  EXPECT_EQ(put.outcome, Outcome::late);
  EXPECT_EQ(one_->get(2), Outcome::miss);
  EXPECT_EQ(engine_->stats().late, 2U);
  engine_->get(ns_, std::span(&get, 1), {.deadline = std::chrono::seconds(6)});
  EXPECT_EQ(get.outcome, Outcome::hit);
}

TEST_P(EngineTest, ABatchIsAnsweredByWhoeverPolls) {
  make();
  ASSERT_EQ(one_->put(1, 5000), Outcome::stored);
  auto memory = Arena::reserve(16 * KiB).value();
  const auto key = key_of(1);
  std::vector<Get> gets{{.key = key, .buffer = memory.span().first(8 * KiB)},
                        {.key = key, .buffer = memory.span().subspan(8 * KiB, 8 * KiB)}};
  int answered = 0;
  engine_->submit(ns_, gets, {}, [&] { ++answered; });
  EXPECT_EQ(answered, 0);
  for (int i = 0; i < 10 && answered == 0; ++i) engine_->poll();
  EXPECT_EQ(answered, 1);
  EXPECT_EQ(gets[0].outcome, Outcome::hit);
  EXPECT_EQ(gets[1].outcome, Outcome::hit);
  std::vector<Get> none;
  engine_->submit(ns_, none, {}, [&] { ++answered; });
  engine_->poll();
  EXPECT_EQ(answered, 2);
}

TEST_P(EngineTest, ListsAndVerifiesWhatIsThere) {
  make();
  const auto parent = key_of(0);
  const std::vector<std::byte> data(9000, std::byte{3}), attributes(10, std::byte{4});
  for (std::uint64_t i = 1; i < 6; ++i) {
    const auto key = key_of(i);
    Put put{.key = key,
            .parent = parent,
            .attributes = attributes,
            .data = data,
            .hints = {.session = i, .position = 7, .tokens = 16, .deadline_ms = 8, .next_use_ms = 9}};
    engine_->put(ns_, std::span(&put, 1));
    ASSERT_EQ(put.outcome, Outcome::stored);
  }
  std::map<std::uint64_t, BlockFacts> seen;
  ASSERT_TRUE(engine_->list(ns_, [&](const BlockFacts& facts) {
    seen[facts.hints.session] = facts;
    return true;
  }));
  ASSERT_EQ(seen.size(), 5U);
  EXPECT_EQ(seen[3].key, key_of(3));
  EXPECT_EQ(seen[3].parent, parent);
  EXPECT_EQ(seen[3].attributes, attributes);
  EXPECT_EQ(seen[3].hints.position, 7U);
  EXPECT_EQ(seen[3].hints.next_use_ms, 9U);
  EXPECT_EQ(seen[3].bytes, 9000U);
  EXPECT_EQ(seen[3].flash_bytes, 4 * store_page);
  flip(first_record + 6 * store_page);  // the payload of the second
  std::uint64_t told = 0;
  const auto report = engine_->verify([&](const VerifyReport& now) { told = now.blocks; });
  ASSERT_TRUE(report);
  EXPECT_EQ(report->blocks, 5U);
  EXPECT_EQ(told, 5U);
  EXPECT_EQ(report->bad, 1U);
  EXPECT_EQ(engine_->stats().blocks, 4U);
}

TEST_P(EngineTest, TheMemoryTierAnswersWithoutTheDeviceAndHoldsItsLimit) {
  settings_.memory_bytes = 300'000;
  make();
  for (std::uint64_t i = 0; i < 10; ++i) {
    ASSERT_EQ(one_->put(i, 40'000), Outcome::stored);
    EXPECT_LE(engine_->stats().memory_bytes, 300'000U);
  }
  auto reads = device_->counters().reads;
  EXPECT_EQ(one_->get(9), Outcome::hit);
  EXPECT_EQ(device_->counters().reads, reads);
  EXPECT_EQ(engine_->stats().memory_hits, 1U);
  EXPECT_EQ(one_->get(0), Outcome::hit);  // from flash, and then not again
  reads = device_->counters().reads;
  EXPECT_EQ(one_->get(0), Outcome::hit);
  EXPECT_EQ(device_->counters().reads, reads);
  ASSERT_EQ(one_->erase(0), Outcome::hit);
  EXPECT_EQ(one_->get(0), Outcome::miss);
  ASSERT_TRUE(engine_->erase_namespace(ns_));
  for (std::uint64_t i = 0; i < 10; ++i) EXPECT_EQ(one_->get(i), Outcome::miss);
}

TEST_P(EngineTest, RefusesGeometriesThatCannotBe) {
  MemoryDevice small({std::vector<std::byte>(store_data_offset + 3 * small_geometry.segment_bytes)});
  EXPECT_EQ(format_store(small, small_geometry, some_identity(1)).error().code, Code::invalid);
  MemoryDevice device(empty_files(1, 8));
  EXPECT_EQ(Engine::open(device, clock_, {}).error().code, Code::not_found);
  EXPECT_EQ(
      format_store(device, {.segment_bytes = 256 * KiB, .block_bytes_max = 255 * KiB}, some_identity(1)).error().code,
      Code::invalid);
}

INSTANTIATE_TEST_SUITE_P(Stores, EngineTest, testing::Bool(), StoreKind::name);

TEST(EngineInVirtualTime, ReadsTakeWhatTheDriveTakes) {
  ManualClock clock;
  SimDevice device(std::make_unique<MemoryDevice>(empty_files(1, 16)), clock, {.latency = Nanos(100'000)});
  ASSERT_TRUE(format_store(device, small_geometry, some_identity(1)));
  auto engine = Engine::open(device, clock, {}).value();
  const NamespaceId ns = engine->open_namespace(some_fields()).value();
  OneByOne one(*engine, ns);
  for (std::uint64_t i = 0; i < 16; ++i) ASSERT_EQ(one.put(i, 60'000), Outcome::stored);
  auto memory = Arena::reserve(16 * 64 * KiB).value();
  std::vector<std::vector<std::byte>> keys;
  std::vector<Get> gets;
  for (std::uint64_t i = 0; i < 16; ++i) keys.push_back(key_of(i));
  for (std::uint64_t i = 0; i < 16; ++i) {
    gets.push_back({.key = keys[i], .buffer = memory.span().subspan(i * 64 * KiB, 64 * KiB)});
  }
  const Nanos start = clock.now();
  engine->get(ns, gets);
  const Nanos together = clock.now() - start;
  for (std::uint64_t i = 0; i < 16; ++i) {
    ASSERT_EQ(gets[i].outcome, Outcome::hit);
    EXPECT_TRUE(is_block(i, 0, gets[i].buffer.first(60'000)));
  }
  // one latency for all of them, and the transfers
  EXPECT_GE(together, Nanos(100'000));
  EXPECT_LT(together, Nanos(1'100'000));
}

}  // namespace
}  // namespace artesian
