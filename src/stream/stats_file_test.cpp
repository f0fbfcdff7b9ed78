#include "stream/stats_file.h"

#include <gtest/gtest.h>

#include <cstring>

namespace artesian {
namespace {

class StatsFile : public ::testing::Test {
 protected:
  StatsFile() : words_(stats_region_bytes / 8) {}
  std::span<std::byte> memory() { return std::as_writable_bytes(std::span(words_)); }
  StatsSource source() {
    return [this](std::uint64_t offset, std::span<std::byte> out) -> Status {
      if (offset + out.size() > memory().size()) return fail(Code::corrupt, "past the end");
      std::memcpy(out.data(), memory().data() + offset, out.size());
      return {};
    };
  }
  std::vector<std::uint64_t> words_;
};

StatsSnapshot sample() {
  StatsSnapshot snapshot;
  snapshot.pid = 4711;
  snapshot.state = "active";
  snapshot.model = "/models/a \"b\" \xff.gguf";
  snapshot.engine = "ggml 0.26.0";
  snapshot.budget_bytes = 1ULL << 40;
  snapshot.hits = 3;
  snapshot.misses = 1;
  snapshot.stall_ns = 5;
  snapshot.decode = {.tokens = 9, .bytes_read = 8, .compute_ns = 7};
  snapshot.speculation = {7, 6, 1};
  snapshot.layers = {{0, 8, 4, 4096, 2, 1}, {5, 9, 3, 100, 1, 0}};
  return snapshot;
}

TEST_F(StatsFile, WhatIsWrittenIsRead) {
  StatsWriter writer(memory());
  writer.write(StatsSnapshot{});
  writer.write(sample());
  const auto read = read_stats(source());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->pid, 4711);
  EXPECT_EQ(read->state, "active");
  EXPECT_EQ(read->model, "/models/a \"b\" \xEF\xBF\xBD.gguf");  // bytes that are no text become a mark
  EXPECT_EQ(read->budget_bytes, 1ULL << 40);
  EXPECT_EQ(read->decode.tokens, 9u);
  EXPECT_EQ(read->decode.bytes_read, 8u);
  EXPECT_EQ(read->decode.compute_ns, 7u);
  EXPECT_EQ(read->speculation.useful, 6u);
  ASSERT_EQ(read->layers.size(), 2u);
  EXPECT_EQ(read->layers[1].layer, 5u);
  EXPECT_EQ(read->layers[1].resident_bytes, 100u);
}

TEST_F(StatsFile, NothingWrittenIsNotFound) {
  EXPECT_EQ(read_stats(source()).error().code, Code::not_found);
}

TEST_F(StatsFile, AnotherFileIsCorrupt) {
  words_[0] = 1;
  EXPECT_EQ(read_stats(source()).error().code, Code::corrupt);
}

TEST_F(StatsFile, AWriterThatDiedIsToldAndReplaced) {
  StatsWriter(memory()).write(sample());
  ++words_[1];  // the sequence
  EXPECT_EQ(read_stats(source()).error().code, Code::retry);
  StatsWriter(memory()).write(sample());
  EXPECT_TRUE(read_stats(source()));
}

TEST_F(StatsFile, ALengthThatDoesNotFitIsCorrupt) {
  StatsWriter(memory()).write(sample());
  const std::uint32_t length = UINT32_MAX;
  std::memcpy(memory().data() + 16, &length, sizeof length);
  EXPECT_EQ(read_stats(source()).error().code, Code::corrupt);
}

TEST_F(StatsFile, LayersGiveWayWhenTheTextDoesNotFit) {
  auto snapshot = sample();
  snapshot.layers.resize(10000);
  StatsWriter(memory()).write(snapshot);
  const auto read = read_stats(source());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->hits, 3u);
  EXPECT_TRUE(read->layers.empty());
}

TEST_F(StatsFile, MissingAndOddKeysKeepDefaults) {
  const auto read = stats_from_json(R"({"hits":5,"misses":"many","pid":-3,"layers":[{"layer":2},7],"speculation":[]})");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->hits, 5u);
  EXPECT_EQ(read->misses, 0u);
  EXPECT_EQ(read->pid, 0);
  EXPECT_EQ(read->state, "loading");
  ASSERT_EQ(read->layers.size(), 1u);
  EXPECT_EQ(read->layers[0].layer, 2u);
  for (const char* text : {"", "[]", "7", "{\"hits\":", "{]"}) EXPECT_FALSE(stats_from_json(text)) << text;
}

TEST_F(StatsFile, AReaderNeverSeesHalfASnapshot) {
  // The reader's copy is interrupted at every step by a whole write: deterministic, in one thread.
  StatsWriter writer(memory());
  auto snapshot = sample();
  writer.write(snapshot);
  int reads = 0;
  const auto plain = source();
  const auto result = read_stats([&](std::uint64_t offset, std::span<std::byte> out) -> Status {
    if (++reads <= 12) {
      snapshot.hits += 1;
      snapshot.misses = snapshot.hits;
      snapshot.state += "x";  // and the length changes
      writer.write(snapshot);
    }
    return plain(offset, out);
  });
  ASSERT_TRUE(result);
  EXPECT_EQ(result->hits, result->misses);
  EXPECT_EQ(result->hits, snapshot.hits);
}

class StatsRegions : public ::testing::Test {
 protected:
  StatsRegions() : words_(stats_file_bytes / 8) {}
  std::span<std::byte> file() { return std::as_writable_bytes(std::span(words_)); }
  StatsSource source() {
    return [this](std::uint64_t offset, std::span<std::byte> out) -> Status {
      std::memcpy(out.data(), file().data() + offset, out.size());
      return {};
    };
  }
  std::vector<std::uint64_t> words_;
};

TEST_F(StatsRegions, EachDoorHasItsOwnUntilAllAreTaken) {
  const auto nobody_ended = [](int) { return true; };
  for (std::size_t i = 0; i < stats_regions; ++i) {
    const auto region = claim_stats_region(file(), 100, nobody_ended);
    ASSERT_EQ(region.data(), file().data() + i * stats_region_bytes);
    ASSERT_EQ(region.size(), stats_region_bytes);
    StatsWriter(region).write(sample());
  }
  EXPECT_TRUE(claim_stats_region(file(), 100, nobody_ended).empty());
  EXPECT_EQ(read_all_stats(source())->size(), stats_regions);
}

TEST_F(StatsRegions, ARegionIsTakenOverOnlyWhenItsProcessHasEnded) {
  const auto is_200 = [](int pid) { return pid == 200; };
  for (std::size_t i = 0; i < stats_regions; ++i) claim_stats_region(file(), i == 5 ? 100 : 200, is_200);
  EXPECT_EQ(claim_stats_region(file(), 200, is_200).data(), file().data() + 5 * stats_region_bytes);
  EXPECT_TRUE(claim_stats_region(file(), 200, is_200).empty());
}

TEST_F(StatsRegions, WhatIsReadIsAddedUp) {
  EXPECT_EQ(read_all_stats(source()).error().code, Code::not_found);
  auto aside = StatsSnapshot{};
  aside.state = "aside";
  aside.model = "draft";
  auto other = sample();
  other.tokens = 5;
  for (const auto& snapshot : {aside, sample(), other}) {
    StatsWriter(claim_stats_region(file(), 100, [](int) { return true; })).write(snapshot);
  }
  const auto all = read_all_stats(source());
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 3u);
  const StatsSnapshot sum = add_up(*all);
  EXPECT_EQ(sum.state, "active");
  EXPECT_EQ(sum.pid, 4711);
  EXPECT_EQ(sum.hits, 6u);
  EXPECT_EQ(sum.tokens, 5u);
  EXPECT_EQ(sum.speculation.issued, 14u);
  EXPECT_EQ(sum.layers.size(), 4u);
  EXPECT_EQ(add_up(std::span(*all).first(1)).state, "aside");
  ++words_[1];  // the first writer died while it wrote
  EXPECT_EQ(read_all_stats(source())->size(), 2u);
}

}  // namespace
}  // namespace artesian
