#include "bench/kv_store_replay.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace artesian::bench {
namespace {

// Three conversations share a first block; the second returns after a minute.
constexpr std::string_view small =
    R"({"timestamp": 0, "input_length": 1400, "output_length": 9, "hash_ids": [0, 1, 2]}
{"timestamp": 1000, "input_length": 1536, "output_length": 9, "hash_ids": [0, 3, 4]}
{"timestamp": 60000, "input_length": 2048, "output_length": 9, "hash_ids": [0, 3, 4, 5]}
{"timestamp": 61000, "input_length": 600, "output_length": 9, "hash_ids": [0, 6]}
)";

TEST(KvTrace, ReadsRequests) {
  const auto trace = parse_kv_trace(small, "small");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->requests.size(), 4U);
  EXPECT_EQ(trace->distinct, 7U);
  EXPECT_EQ(trace->block_uses, 12U);
  EXPECT_EQ(trace->requests[2].when, std::chrono::seconds(60));
}

TEST(KvTrace, RefusesWhatIsWrongWithTheLine) {
  for (const auto& [text, word] : {
           std::pair{"nonsense", "line 1"},
           {R"({"timestamp": 0, "input_length": 5})", "hash_ids"},
           {R"({"timestamp": 0, "input_length": 5, "hash_ids": ["a"]})", "number"},
           {R"({"timestamp": -1, "input_length": 5, "hash_ids": [1]})", "timestamp"},
           {R"({"timestamp": 0, "input_length": 5, "hash_ids": [1, 2]})", "2 ids"},
           {"{\"timestamp\": 9, \"input_length\": 5, \"hash_ids\": [1]}\n"
            "{\"timestamp\": 8, \"input_length\": 5, \"hash_ids\": [1]}",
            "line 2"},
           {"", "no requests"},
       }) {
    const auto trace = parse_kv_trace(text, "here");
    ASSERT_FALSE(trace) << text;
    EXPECT_EQ(trace.error().code, Code::corrupt);
    EXPECT_NE(trace.error().message.find(word), std::string::npos) << trace.error().message;
  }
  EXPECT_EQ(read_kv_trace("/nowhere/at/all.jsonl").error().code, Code::not_found);
}

TEST(KvCache, CountsByHand) {
  const auto trace = parse_kv_trace(small, "small");
  ASSERT_TRUE(trace);
  const KvCount large = kv_lru(*trace, 100);
  EXPECT_EQ(large.hits, 5U);  // 0; 0, 3, 4; 0
  EXPECT_EQ(large.written, 7U);
  EXPECT_EQ(large.late_hits, 4U);
  EXPECT_EQ(kv_lru(*trace, 3).hits, 5U);
  EXPECT_EQ(kv_lru(*trace, 2).hits, 4U);  // 4 went, being a leaf
  EXPECT_EQ(kv_optimum(*trace, 3).hits, 5U);
  EXPECT_EQ(kv_optimum(*trace, 3).written, 3U);
  EXPECT_EQ(kv_optimum(*trace, 1).hits, 3U);
  EXPECT_EQ(kv_s3_fifo(*trace, 100).hits, 5U);
  const KvPolicyRun second{find_kv_admission("second-sighting"), nullptr, false, 100, 0, 0};
  const KvCount count = kv_policy(*trace, second, {});
  EXPECT_EQ(count.hits, 2U);  // 0 from its third sighting on
  EXPECT_EQ(count.written, 3U);
}

TEST(KvCache, SegmentsHoldNoMoreThanTheCapacity) {
  KvTrace trace;
  for (std::uint32_t i = 0; i < 300; ++i) {
    const KvRequest request{.when = std::chrono::seconds(i), .tokens = 2 * kv_block_tokens, .blocks = {0, 1 + i % 40}};
    trace.block_uses += 2;
    trace.requests.push_back(request);
  }
  trace.distinct = 41;
  for (const KvEvictionInfo& eviction : kv_evictions()) {
    const KvPolicyRun run{find_kv_admission("first-sight"), &eviction, false, 24, 4, 0};
    const KvCount count = kv_policy(trace, run, {});
    EXPECT_LT(count.hits, count.uses) << eviction.name;
    EXPECT_GT(count.written, 41U) << eviction.name;  // 41 do not fit into 24
    if (eviction.name == "arrival") {
      EXPECT_EQ(count.carried, 0U);
    } else {
      EXPECT_GE(count.hits, 280U) << eviction.name;  // the block of all is carried, or comes back with the next put
    }
  }
}

TEST(KvReplay, EveryPolicyHasARowAndTheBudgetHolds) {
  const auto trace = parse_kv_trace(small, "small");
  ASSERT_TRUE(trace);
  const auto cases = replay_kv(*trace, {.capacities = {8}, .budget_of_lru = 0.5, .segment_blocks = 2}, {});
  ASSERT_TRUE(cases) << cases.error().message;
  EXPECT_EQ((*cases)[0].rows.size(), 4 + kv_admissions().size() + kv_evictions().size());
  EXPECT_FALSE(replay_kv(*trace, {.capacities = {3}, .segment_blocks = 2}, {}));
  for (const GoalFigure& figure : kv_replay_figures(*cases)) EXPECT_FALSE(figure.figure);
}

TEST(KvReplay, AStoreOnADiskCountsAsThePoliciesDo) {
  const auto folder = std::filesystem::path(testing::TempDir()) / fmt::format("kv-replay-{}", getpid());
  std::filesystem::create_directories(folder);
  KvTrace trace;  // a shared block, and conversations that come back after two more
  for (std::uint32_t i = 0; i < 120; ++i) {
    const std::uint32_t own = 1 + i / 6 * 3 + i % 3;
    trace.requests.push_back(
        {.when = std::chrono::seconds(i), .tokens = 2 * kv_block_tokens + 100, .blocks = {0, own, 1000 + i}});
    trace.block_uses += 3;
  }
  trace.distinct = 1120;
  KvStoreReplaySettings settings{.replay = {.capacities = {32}, .budget_of_lru = 10, .segment_blocks = 4},
                                 .policies = {"chats", "second-sighting+clock"},
                                 .folder = folder,
                                 .block_bytes = 16 * KiB};
  const auto cases = replay_kv_store(trace, settings, {});
  ASSERT_TRUE(cases) << cases.error().message;
  ASSERT_EQ((*cases)[0].rows.size(), 3U);
  const KvReplayRow& chats = (*cases)[0].rows[1];
  EXPECT_NEAR(chats.hit, (119.0 + 60) / 360, 0.02);  // the block of all, and each conversation's own the second time
  EXPECT_GE(chats.written, 61U);
  EXPECT_GT(chats.carried, 0U);
  const KvReplayRow& second = (*cases)[0].rows[2];
  EXPECT_LT(second.hit, chats.hit);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  settings.policies = {"no such"};
  EXPECT_EQ(replay_kv_store(trace, settings, {}).error().code, Code::invalid);
  settings.folder /= "nowhere";
  EXPECT_FALSE(replay_kv_store(trace, settings, {}));
  std::filesystem::remove_all(folder);
}

TEST(KvReplay, RecordedTraceGivesThePublishedFigures) {
  const char* folder = std::getenv("ARTESIAN_TRACES");
  if (folder == nullptr) GTEST_SKIP() << "ARTESIAN_TRACES is not set";
  const auto trace = read_kv_trace(std::filesystem::path(folder) / "kv-traces" / "conversation_trace.jsonl");
  ASSERT_TRUE(trace) << trace.error().message;
  const auto hit = [](const KvCount& count) {
    return static_cast<double>(count.hits) / static_cast<double>(count.uses);
  };
  EXPECT_NEAR(hit(kv_lru(*trace, 5'000)), .112, .0006);
  EXPECT_NEAR(hit(kv_lru(*trace, 10'000)), .212, .0006);
  EXPECT_NEAR(hit(kv_s3_fifo(*trace, 5'000)), .145, .002);
  EXPECT_NEAR(hit(kv_s3_fifo(*trace, 10'000)), .202, .002);
  EXPECT_NEAR(hit(kv_optimum(*trace, 5'000)), .341, .002);
  EXPECT_NEAR(hit(kv_optimum(*trace, 10'000)), .366, .002);
}

}  // namespace
}  // namespace artesian::bench
