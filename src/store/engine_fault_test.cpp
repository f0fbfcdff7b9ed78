// A store on a device that errs, lies and dawdles as a seed says: no wrong byte, no hang, and what is good is answered.
#include <gtest/gtest.h>

#include "device/faulty_device.h"
#include "store/engine_model_rig_test.h"

namespace artesian {
namespace {

constexpr std::uint64_t block_numbers = 60;

class FaultRun {
 public:
  FaultRun(bool encrypted, std::uint64_t seed) : kind_(encrypted), random_(seed), memory_(empty_files(2, 8)) {
    EXPECT_TRUE(format_store(memory_, small_geometry, kind_.identity(2)));
  }

  // Some hundred steps in an engine of its own. False if a wrong byte was seen.
  bool life(const FaultPlan& plan, std::uint64_t steps, bool strict) {
    FaultyDevice device(memory_, plan);
    auto engine = open(device);
    if (engine == nullptr) return true;
    const auto ns = engine->open_namespace(some_fields());
    bool right = true;
    if (ns) {
      RandomWork work(*engine, *ns, model_, random_, block_numbers);
      for (std::uint64_t i = 0; i < steps && right; ++i) {
        right = work.step(strict);
        if (i % 64 == 63 && engine->flush()) ++flushes_;
      }
      hits_ += work.hits();
      const auto report = engine->verify(nullptr);
      EXPECT_TRUE(report);
    }
    engine.reset();
    faults_ += device.faults();
    return right;
  }

  std::uint64_t faults() const { return faults_; }
  std::uint64_t hits() const { return hits_; }
  std::uint64_t flushes() const { return flushes_; }

  // After a restart anything that was ever put may be there, for all the model knows.
  void restarted() {
    for (auto& [number, block] : model_.blocks()) block.stored = false;
  }

 private:
  std::unique_ptr<Engine> open(Device& device) {
    if (auto engine = Engine::open(device, clock_, kind_.settings())) return std::move(*engine);
    // A superblock that cannot be read just now, or is gone: then it is a new store.
    if (Engine::open(memory_, clock_, kind_.settings())) return nullptr;
    EXPECT_TRUE(format_store(memory_, small_geometry, kind_.identity(2)));
    return nullptr;
  }

  StoreKind kind_;
  ManualClock clock_;
  std::mt19937_64 random_;
  MemoryDevice memory_;
  StoreModel model_;
  std::uint64_t faults_ = 0, hits_ = 0, flushes_ = 0;
};

class EngineFaults : public testing::TestWithParam<bool> {};

TEST_P(EngineFaults, ALyingDeviceNeverMakesAWrongBlock) {
  std::uint64_t faults = 0, hits = 0;
  const std::uint64_t seeds = test_seeds(10);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    FaultRun run(GetParam(), seed);
    for (std::uint64_t life = 0; life < 4; ++life) {
      const FaultPlan plan{.seed = seed * 100 + life,
                           .error_rate = 0.02,
                           .short_rate = 0.02,
                           .flip_rate = 0.05,
                           .lost_rate = 0.03,
                           .torn_rate = 0.05,
                           .misdirect_rate = 0.03,
                           .hold_max = static_cast<std::uint32_t>(seed % 5)};
      ASSERT_TRUE(run.life(plan, 150, false)) << "a wrong byte with seed " << seed << ", life " << life;
    }
    faults += run.faults();
    hits += run.hits();
  }
  RecordProperty("faults", std::to_string(faults));
  EXPECT_GT(faults, 40 * seeds);
  EXPECT_GT(hits, 20 * seeds);
}

TEST_P(EngineFaults, ADeviceThatErrsButDoesNotLieGivesTheLastVersionOrNone) {
  std::uint64_t faults = 0, hits = 0, flushes = 0;
  const std::uint64_t seeds = test_seeds(10);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    FaultRun run(GetParam(), seed);
    const FaultPlan plan{.seed = seed,
                         .error_rate = 0.05,
                         .short_rate = 0.05,
                         .flip_rate = 0.1,
                         .hold_max = static_cast<std::uint32_t>(seed % 7)};
    ASSERT_TRUE(run.life(plan, 400, true)) << "a wrong version with seed " << seed;
    faults += run.faults();
    hits += run.hits();
    flushes += run.flushes();
  }
  EXPECT_GT(faults, 40 * seeds);
  EXPECT_GT(hits, 10 * seeds);
  EXPECT_GT(flushes, 0U);
}

TEST_P(EngineFaults, ADeadDeviceAnswersEverythingWithFailure) {
  StoreKind kind(GetParam());
  MemoryDevice memory(empty_files(1, 8));
  ASSERT_TRUE(format_store(memory, small_geometry, kind.identity(1)));
  ManualClock clock;
  std::uint64_t stored = 0;
  {
    auto engine = Engine::open(memory, clock, kind.settings()).value();
    OneByOne one(*engine, engine->open_namespace(some_fields()).value());
    for (std::uint64_t i = 0; i < 10; ++i) stored += one.put(i, 20'000) == Outcome::stored ? 1 : 0;
    ASSERT_TRUE(engine->flush());
  }
  ASSERT_EQ(stored, 10U);
  FaultyDevice device(memory, {.fail_completion = 200, .fail_from_then_on = true});
  auto engine = Engine::open(device, clock, kind.settings()).value();
  OneByOne one(*engine, engine->open_namespace(some_fields()).value());
  while (device.completions() < 200) one.get(1);
  for (std::uint64_t i = 0; i < 10; ++i) EXPECT_EQ(one.get(i), Outcome::failed);
  for (std::uint64_t i = 20; i < 60; ++i) {
    const Outcome outcome = one.put(i, 20'000);
    EXPECT_TRUE(outcome == Outcome::failed || outcome == Outcome::rejected) << outcome_name(outcome);
    EXPECT_EQ(one.get(i), Outcome::miss);
  }
  EXPECT_FALSE(engine->flush());
  EXPECT_EQ(engine->stats().paths_failed, 1U);
}

// A short scenario with everything in it, for the n-th call that fails.
void scenario(Engine& engine, bool& right) {
  const auto ns = engine.open_namespace(some_fields());
  if (!ns) return;
  StoreModel model;
  std::mt19937_64 random(7);
  RandomWork work(engine, *ns, model, random, 30);
  for (int i = 0; i < 60 && right; ++i) {
    right = work.step(true);
    if (i % 20 == 19) static_cast<void>(engine.flush());
  }
  static_cast<void>(engine.verify(nullptr));
}

TEST_P(EngineFaults, TheNthCompletionOrSubmitFails) {
  StoreKind kind(GetParam());
  for (const bool submits : {false, true}) {
    std::uint64_t n = 1, last = UINT64_MAX;
    for (; n <= last; n += 1 + n / 6) {
      MemoryDevice memory(empty_files(1, 6));
      ASSERT_TRUE(format_store(memory, small_geometry, kind.identity(1)));
      FaultPlan plan;
      (submits ? plan.fail_submit : plan.fail_completion) = n;
      FaultyDevice device(memory, plan);
      ManualClock clock;
      bool right = true;
      if (auto engine = Engine::open(device, clock, kind.settings())) scenario(**engine, right);
      ASSERT_TRUE(right) << (submits ? "submit " : "completion ") << n;
      if (device.faults() == 0) last = n;
    }
    EXPECT_GT(last, 100U);
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, EngineFaults, testing::Bool(), StoreKind::name);

}  // namespace
}  // namespace artesian
