#include "stream/dense.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/units.h"
#include "stream/rig_test.h"

namespace artesian {
namespace {

constexpr std::size_t tensors = 12;

// Tensors of different sizes that begin at offsets that no page knows; every third is pinned.
struct World : stream_test::World {
  std::uint64_t pinned_bytes = 0;

  World() {
    std::uint64_t offset = 160, largest = 0;
    for (std::uint32_t i = 0; i < tensors; ++i) {
      GgufTensor tensor{.name = fmt::format("blk.{}.attn_q.weight", i), .ne = {64, 64, 1, 1}, .offset = offset};
      tensor.bytes = 5000 + 3000 * (i % 4);
      offset += tensor.bytes + 32;
      model.tensors.push_back(tensor);
      const std::uint64_t padded = padded_bytes(tensor);
      largest = std::max(largest, padded);
      plan.dense.push_back({.tensor = i, .pinned = i % 3 == 0, .base = plan.arena_bytes});
      if (i % 3 != 0) continue;
      plan.arena_bytes += padded;
      pinned_bytes += tensor.bytes;
    }
    plan.ring_base = plan.arena_bytes;
    plan.ring_bytes = 2 * largest;
    plan.arena_bytes += plan.ring_bytes;
    fill(offset, 9);
  }
};

struct Rig : stream_test::Rig {
  World& world;
  DenseStream stream;

  Rig(World& of, FaultPlan faults, std::function<bool(std::uint64_t)> may_commit)
      : stream_test::Rig(of, faults), world(of), stream(of.model, of.plan, arena, loader, std::move(may_commit)) {}

  // What the executor does with a node; false when the bytes could not be had.
  bool use(std::uint32_t tensor) {
    const auto there = stream.acquire(tensor);
    if (!there) return false;
    const GgufTensor& facts = world.model.tensors[tensor];
    EXPECT_TRUE(std::equal(*there, *there + facts.bytes, world.bytes.data() + facts.offset)) << "tensor " << tensor;
    stream.release(tensor);
    return true;
  }

  int pass() {
    int failures = 0;
    for (std::uint32_t tensor = 0; tensor < tensors; ++tensor) failures += use(tensor) ? 0 : 1;
    return failures;
  }
};

TEST(Dense, GivesTheRightBytesPassAfterPass) {
  World world;
  Rig rig(world, {}, {});
  for (int pass = 0; pass < 5; ++pass) EXPECT_EQ(rig.pass(), 0);
  EXPECT_EQ(rig.stream.pinned_bytes(), world.pinned_bytes);
  rig.loader.drain();
}

// As many as are at hand are held at once; what they hold must stay until it is released, whatever is read meanwhile.
TEST(Dense, WhatIsHeldStays) {
  World world;
  world.plan.ring_bytes *= 6;
  world.plan.arena_bytes += world.plan.ring_bytes;
  std::size_t held_most = 0, streamed_most = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    Rig rig(world, {.seed = seed, .hold_max = 3}, {});
    std::vector<std::pair<std::uint32_t, const std::byte*>> held;
    const auto release_all = [&] {
      std::size_t streamed = 0;
      for (const auto& [tensor, bytes] : held) {
        const GgufTensor& facts = world.model.tensors[tensor];
        EXPECT_TRUE(std::equal(bytes, bytes + facts.bytes, world.bytes.data() + facts.offset)) << "tensor " << tensor;
        rig.stream.release(tensor);
        streamed += tensor % 3 != 0 ? 1 : 0;
      }
      held_most = std::max(held_most, held.size());
      streamed_most = std::max(streamed_most, streamed);
      held.clear();
    };
    for (std::uint32_t use = 0; use < 20 * tensors; ++use) {
      const auto tensor = static_cast<std::uint32_t>(use % tensors);
      if (tensor == 0) release_all();
      rig.loader.poll();
      if (!rig.stream.at_hand(tensor)) release_all();
      const auto there = rig.stream.acquire(tensor);
      ASSERT_TRUE(there);
      held.emplace_back(tensor, *there);
    }
    release_all();
    rig.loader.drain();
  }
  EXPECT_GT(held_most, 2U);
  EXPECT_GT(streamed_most, 1U);
}

TEST(Dense, ReadsWhatIsPinnedOnce) {
  World world;
  Rig rig(world, {}, {});
  EXPECT_EQ(rig.pass(), 0);
  rig.loader.drain();
  const std::uint64_t first = rig.loader.counters().bytes_read;
  for (std::uint32_t i = 0; i < tensors; i += 3) EXPECT_TRUE(rig.use(i));
  EXPECT_EQ(rig.loader.counters().bytes_read, first);
}

TEST(Dense, StreamsWhatMayNotBePinned) {
  World world;
  Rig rig(world, {}, [](std::uint64_t) { return false; });
  for (int pass = 0; pass < 3; ++pass) EXPECT_EQ(rig.pass(), 0);
  EXPECT_EQ(rig.stream.pinned_bytes(), 0U);
  EXPECT_LE(rig.arena.committed(), align_up(world.plan.ring_bytes, slab_page));
  rig.loader.drain();
}

TEST(Dense, PinsWhenThereIsMemoryAgain) {
  World world;
  bool memory = false;
  Rig rig(world, {}, [&memory](std::uint64_t) { return memory; });
  EXPECT_EQ(rig.pass(), 0);
  EXPECT_EQ(rig.stream.pinned_bytes(), 0U);
  memory = true;
  for (int pass = 0; pass < 3; ++pass) EXPECT_EQ(rig.pass(), 0);
  EXPECT_EQ(rig.stream.pinned_bytes(), world.pinned_bytes);
  rig.loader.drain();
}

TEST(Dense, ShrinksAndGoesOn) {
  World world;
  Rig rig(world, {}, {});
  EXPECT_EQ(rig.pass(), 0);
  const std::uint64_t before = rig.arena.committed();
  const std::uint64_t freed = rig.stream.shrink(10'000);
  EXPECT_GE(freed, 10'000U);
  EXPECT_EQ(rig.arena.committed(), before - freed);
  for (int pass = 0; pass < 3; ++pass) EXPECT_EQ(rig.pass(), 0);
  rig.stream.shrink(~0ULL);
  EXPECT_EQ(rig.stream.pinned_bytes(), 0U);
  EXPECT_EQ(rig.pass(), 0);
  rig.loader.drain();
}

TEST(Dense, OrderOfUseMayBeAny) {
  World world;
  std::mt19937_64 random(4);
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    Rig rig(world, {.seed = seed, .hold_max = 3}, {});
    for (int use = 0; use < 100; ++use) {
      EXPECT_TRUE(rig.use(static_cast<std::uint32_t>(random() % tensors)));
      if (random() % 20 == 0) rig.stream.shrink(1 + random() % 20'000);
    }
    rig.loader.drain();
  }
}

// The n-th read fails, once or for good: a use fails or gives the right bytes, and what can be read later is.
TEST(Dense, NeverGivesBytesThatDidNotArrive) {
  World world;
  for (const bool for_good : {false, true}) {
    for (std::uint64_t nth = 1; nth <= 20; ++nth) {
      SCOPED_TRACE(fmt::format("read {}{}", nth, for_good ? " and all after it" : ""));
      Rig rig(world, {.fail_completion = nth, .fail_from_then_on = for_good}, {});
      int failures = 0;
      for (int pass = 0; pass < 4; ++pass) failures += rig.pass();
      EXPECT_EQ(failures > 0, for_good);  // one failure is tried again
      rig.loader.drain();
    }
  }
}

}  // namespace
}  // namespace artesian
