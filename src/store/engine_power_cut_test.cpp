// The power goes before each write of a short scenario, and what was not flushed is dropped or torn: what flush
// acknowledged is there, the rest is right or a miss.
#include <gtest/gtest.h>

#include "device/power_cut_device.h"
#include "store/engine_model_rig_test.h"

namespace artesian {
namespace {

constexpr std::uint64_t seeds_a_cut = 3;
constexpr StoreGeometry geometry{.segment_bytes = 128 * KiB, .block_bytes_max = 64 * KiB};

struct Scenario {
  std::uint32_t segments = 16;  // 16: nothing is evicted; 6: much is
  std::uint64_t numbers = 12;
  int steps = 40;
  bool evicts() const { return segments < 16; }
};

// Runs until the power goes. The model knows what was promised by then.
void run(Engine& engine, const Scenario& plan, StoreModel& model, std::set<std::uint64_t>& pinned) {
  const auto ns = engine.open_namespace(some_fields());
  if (!ns) return;
  std::mt19937_64 random(3);
  RandomWork work(engine, *ns, model, random, plan.numbers);
  OneByOne one(engine, *ns);
  for (int i = 0; i < plan.steps; ++i) {
    if (i % 4 == 3) {
      work.erase();
    } else {
      work.put();
    }
    if (plan.evicts() && i == 5) {
      for (std::uint64_t number = 0; number < 2; ++number) {
        if (one.pin(number) == Outcome::hit) pinned.insert(number);
      }
    }
    if (i % 5 == 4 && engine.flush()) model.flushed();
  }
}

void check(StoreKind& kind, const PowerCutDevice::Content& content, const Scenario& plan, StoreModel model,
           const std::set<std::uint64_t>& pinned, const std::string& where) {
  MemoryDevice device(content);
  ManualClock clock;
  auto engine = Engine::open(device, clock, kind.settings());
  ASSERT_TRUE(engine) << where << ": " << engine.error().message;
  const auto ns = (*engine)->open_namespace(some_fields());
  ASSERT_TRUE(ns) << where << ": " << ns.error().message;
  auto memory = Arena::reserve(64 * KiB).value();
  for (std::uint64_t number = 0; number < plan.numbers; ++number) {
    const StoreModel::Block& block = model[number];
    const auto key = key_of(number);
    Get item{.key = key, .buffer = memory.span()};
    (*engine)->get(*ns, std::span(&item, 1));
    std::optional<std::uint64_t> version;
    if (item.outcome == Outcome::hit) {
      for (const std::uint64_t candidate : block.ever) {
        if (is_block(number, candidate, memory.span().first(item.bytes))) version = candidate;
      }
      ASSERT_TRUE(version) << where << ": wrong bytes of block " << number;
    }
    const bool must = block.durable && !block.may_miss && (!plan.evicts() || pinned.contains(number));
    if (!version) {
      EXPECT_FALSE(must) << where << ": block " << number << " was flushed and is " << outcome_name(item.outcome);
      continue;
    }
    const bool allowed = block.since.contains(*version) || (block.durable && *version == block.durable_version);
    EXPECT_TRUE(allowed) << where << ": block " << number << " has version " << *version << ", durable is "
                         << block.durable_version << (block.durable ? "" : " (erased)");
  }
}

void cut_everywhere(bool encrypted, const Scenario& plan) {
  StoreKind kind(encrypted);
  std::uint64_t cuts = 0;
#ifdef __SANITIZE_THREAD__
  constexpr std::uint64_t step = 17;  // nothing here has threads
#else
  constexpr std::uint64_t step = 1;
#endif
  for (std::uint64_t cut = 1;; cut += step) {
    PowerCutDevice device(formatted_files(kind, plan.segments, geometry), cut);
    StoreModel model;
    std::set<std::uint64_t> pinned;
    ManualClock clock;
    if (auto engine = Engine::open(device, clock, kind.settings())) run(**engine, plan, model, pinned);
    if (!device.is_cut()) break;
    ++cuts;
    for (std::uint64_t seed = 0; seed < test_seeds(seeds_a_cut); ++seed) {
      check(kind, device.after_cut(seed), plan, model, pinned, fmt::format("cut {} seed {}", cut, seed));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  EXPECT_GT(cuts, 30U / step);
}

class EnginePowerCut : public testing::TestWithParam<bool> {};

TEST_P(EnginePowerCut, WhatFlushAcknowledgedIsThere) {
  cut_everywhere(GetParam(), {.segments = 16, .numbers = 12, .steps = 40});
}

TEST_P(EnginePowerCut, AlsoWhileSegmentsAreReclaimedAndPinnedBlocksCarriedForward) {
  cut_everywhere(GetParam(), {.segments = 5, .numbers = 60, .steps = 80});
}

INSTANTIATE_TEST_SUITE_P(Stores, EnginePowerCut, testing::Bool(), StoreKind::name);

}  // namespace
}  // namespace artesian
