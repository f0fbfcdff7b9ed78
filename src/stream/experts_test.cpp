#include "stream/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "base/units.h"
#include "stream/rig_test.h"

namespace artesian {
namespace {

constexpr std::uint32_t type_q8_0 = 8;

// A model of three layers whose slices begin at offsets that no page knows; its bytes are random.
struct World : stream_test::World {
  World(std::uint64_t experts, std::uint64_t width, std::uint32_t slots, std::uint32_t window) {
    model.facts.expert_used_count = 2;
    std::uint64_t offset = 160;
    std::uint64_t arena = 0;
    for (std::uint32_t layer = 0; layer < 3; ++layer) {
      ExpertLayerPlan placed{.layer = layer, .experts = static_cast<std::uint32_t>(experts), .used = 2, .slots = slots};
      for (std::uint32_t part = 0; part < 3; ++part) {
        GgufTensor tensor{.type = type_q8_0, .ne = {width, 60, experts, 1}, .offset = offset};
        tensor.bytes = width / 32 * 34 * 60 * experts;
        offset += tensor.bytes;
        placed.parts.push_back({.tensor = static_cast<std::uint32_t>(model.tensors.size()),
                                .base = arena,
                                .residue = static_cast<std::uint32_t>(tensor.offset % slab_page)});
        const std::uint64_t stride = (width / 32 * 34 * 60 / slab_page + 3) * slab_page;
        plan.slabs.resize(1);
        plan.slabs[0].stride = stride;
        arena += slots * stride;
        placed.slot_bytes += stride;
        model.tensors.push_back(tensor);
      }
      plan.layers.push_back(placed);
    }
    plan.slabs[0].window_slots = window;
    plan.slabs[0].window_base = arena;
    plan.arena_bytes = arena + window * plan.slabs[0].stride;
    fill(offset, 5);
  }
};

struct Rig : stream_test::Rig {
  World& world;
  ExpertStore store;

  Rig(World& of, FaultPlan faults)
      : stream_test::Rig(of, faults), world(of), store(of.model, of.plan, arena, loader, eviction_policies()[0], {}) {}

  bool right(std::size_t layer, std::size_t part, std::size_t i, ExpertIndex expert) {
    const GgufTensor& tensor = world.model.tensors[world.plan.layers[layer].parts[part].tensor];
    const std::byte* there = store.base(layer, part) + store.index(part, i) * store.stride(layer, part);
    return std::equal(there, there + tensor.matrix_bytes(),
                      world.bytes.data() + tensor.offset + expert * tensor.matrix_bytes());
  }

  // What the executor does with a node: false when a load failed. Every byte used is compared; it must come to an end.
  bool node(std::size_t layer, std::size_t part, const std::vector<ExpertIndex>& experts) {
    std::vector<char> done(experts.size(), 0);
    std::size_t left = experts.size();
    for (int round = 0; left > 0; ++round) {
      EXPECT_LT(round, 10'000) << "layer " << layer << ", part " << part << ": waits for ever";
      if (round >= 10'000) return false;
      std::size_t requested = 0, ready = 0;
      for (std::size_t i = 0; i < experts.size(); ++i) {
        if (done[i] != 0) continue;
        requested += store.request(part, i, true) ? 1 : 0;
        if (store.failed(part, i)) return false;
        ready += store.ready(part, i) ? 1 : 0;
      }
      if (requested == left) store.read_ahead(part);
      if (ready == 0) loader.wait();
      for (std::size_t i = 0; i < experts.size(); ++i) {
        if (done[i] != 0 || !store.ready(part, i)) continue;
        EXPECT_TRUE(right(layer, part, i, experts[i])) << "layer " << layer << ", part " << part;
        store.release(part, i);
        done[i] = 1;
        --left;
      }
    }
    return true;
  }
};

// Random routes, parts in any order: not only the one that reading ahead expects.
int run_routes(Rig& rig, std::uint64_t seed, int steps) {
  std::mt19937_64 random(seed);
  std::vector<ExpertIndex> all(rig.world.plan.layers[0].experts);
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::size_t> parts = {0, 1, 2};
  int failures = 0;
  for (int step = 0; step < steps; ++step) {
    if (random() % 4 == 0) rig.store.shrink(1 + random() % rig.world.plan.arena_bytes);
    const bool many = random() % 4 == 0;
    std::ranges::shuffle(parts, random);
    for (std::size_t layer = 0; layer < 3; ++layer) {
      std::ranges::shuffle(all, random);
      std::vector<ExpertIndex> chosen(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(many ? all.size() : 2));
      std::ranges::sort(chosen);
      rig.store.route({.layer = layer,
                       .part = parts[0],
                       .experts = chosen,
                       .by_token = chosen,
                       .per_token = many ? 4U : 2U,
                       .many = many});
      for (const std::size_t part : parts) {
        if (rig.node(layer, part, chosen)) continue;
        ++failures;
        break;
      }
      std::ranges::shuffle(all, random);
      if (random() % 2 == 0) rig.store.speculate((layer + 1) % 3, std::span(all).first(4));
    }
  }
  rig.loader.drain();
  return failures;
}

TEST(Experts, EveryRouteEndsWithTheRightBytesHoweverSmallTheRoom) {
  for (const auto& [width, slots] :
       std::vector<std::pair<std::uint64_t, std::uint32_t>>{{64, 2}, {2048, 2}, {64, 24}}) {
    World world(slots > 8 ? 40 : 8, width, slots, slots > 8 ? 12 : 1);
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      SCOPED_TRACE(fmt::format("width {}, {} slots, seed {}", width, slots, seed));
      Rig rig(world, {.seed = seed, .hold_max = 3});
      EXPECT_EQ(run_routes(rig, seed, 30), 0);
      if (slots > 8) {
        EXPECT_GT(rig.store.speculation().total().guesses, 0U);
      }
      EXPECT_LE(rig.arena.committed(), align_up(world.plan.arena_bytes, slab_page));
    }
  }
}

TEST(Experts, ARouteOfAnotherCallerIsNoticed) {
  World world(8, 64, 2, 2);
  Rig rig(world, {});
  const std::vector<ExpertIndex> mine = {1, 2}, theirs = {5, 6};
  const std::uint64_t number = rig.store.route({.experts = mine, .by_token = mine});
  EXPECT_EQ(rig.store.current_route(), number);
  EXPECT_TRUE(rig.node(0, 0, mine));
  EXPECT_NE(rig.store.route({.experts = theirs, .by_token = theirs}), number);
  EXPECT_NE(rig.store.current_route(), number);
  EXPECT_TRUE(rig.node(0, 0, theirs));
  rig.store.route({.part = 1, .experts = mine, .by_token = mine});
  EXPECT_TRUE(rig.node(0, 1, mine));
  rig.loader.drain();
}

TEST(Experts, FaultsFailRoutesAndNeverGiveWrongBytes) {
  World world(8, 2048, 3, 2);
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Rig rig(world, {.seed = seed, .error_rate = 0.15, .short_rate = 0.15, .hold_max = 4});
    EXPECT_GT(run_routes(rig, seed, 40), 0);
  }
}

TEST(Experts, TheNthCallFailingIsRetriedOrRefusedForEveryN) {
  World world(8, 2048, 2, 2);
  std::uint64_t total = 0;
  {
    Rig rig(world, {});
    ASSERT_EQ(run_routes(rig, 3, 4), 0);
    total = rig.device.completions();
  }
  for (std::uint64_t n = 1; n <= total; n += 7) {
    SCOPED_TRACE(fmt::format("completion {}", n));
    Rig once(world, {.fail_completion = n});
    EXPECT_EQ(run_routes(once, 3, 4), 0);  // tried once more
    Rig ever(world, {.fail_completion = n, .fail_from_then_on = true});
    EXPECT_GT(run_routes(ever, 3, 4), 0);
  }
}

}  // namespace
}  // namespace artesian
