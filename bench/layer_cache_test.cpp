#include "bench/layer_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace artesian::bench {
namespace {

LayerUses layer_of(const std::vector<ExpertIndex>& uses, std::size_t used, std::size_t experts) {
  return {uses, used, experts};
}

std::uint64_t misses_of(std::string_view policy, const LayerUses& layer, std::size_t slots) {
  auto instance = find_eviction(policy)->make(layer.experts);
  return policy_misses(layer, slots, *instance);
}

// The fewest misses there are, by trying every choice of what stays.
std::uint64_t least_misses(const LayerUses& layer, std::size_t slots, std::size_t at,
                           const std::set<ExpertIndex>& cache) {
  if (at >= layer.uses.size()) return 0;
  std::set<ExpertIndex> all = cache;
  std::uint64_t missed = 0;
  for (std::size_t i = 0; i < layer.used; ++i) missed += all.insert(layer.uses[at + i]).second ? 1 : 0;
  const std::vector<ExpertIndex> candidates(all.begin(), all.end());
  std::uint64_t best = ~0ULL;
  for (std::uint32_t bits = 0; bits < (1U << candidates.size()); ++bits) {
    std::set<ExpertIndex> kept;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (((bits >> i) & 1U) != 0) kept.insert(candidates[i]);
    }
    if (kept.size() != std::min(slots, candidates.size())) continue;
    best = std::min(best, least_misses(layer, slots, at + layer.used, kept));
  }
  return missed + best;
}

TEST(LayerCache, TextbookLruOfLessThanACycleHitsNothingOnACycle) {
  const std::vector<ExpertIndex> uses = {0, 1, 2, 0, 1, 2, 0, 1, 2};
  EXPECT_EQ(textbook_lru_misses(layer_of(uses, 3, 4), 2), 9U);
  EXPECT_EQ(textbook_lru_misses(layer_of(uses, 3, 4), 3), 3U);
  EXPECT_EQ(misses_of("lru", layer_of(uses, 3, 4), 2), 5U);  // a step as a whole: what it needs is not thrown out
  EXPECT_EQ(textbook_lru_misses(layer_of(uses, 3, 4), 0), 9U);
}

TEST(LayerCache, NoSlotsMeansEveryUseIsAMiss) {
  const std::vector<ExpertIndex> uses = {0, 1, 0, 1};
  for (const EvictionInfo& info : eviction_policies())
    EXPECT_EQ(misses_of(info.name, layer_of(uses, 2, 4), 0), 4U) << info.name;
  EXPECT_EQ(optimum_misses(layer_of(uses, 2, 4), 0), 4U);
}

TEST(LayerCache, OptimumIsTheFewestMissesOfAllChoices) {
  std::mt19937 random(5);
  for (int round = 0; round < 40; ++round) {
    std::vector<ExpertIndex> uses;
    for (int step = 0; step < 6; ++step) {
      const auto a = static_cast<ExpertIndex>(random() % 5);
      uses.push_back(a);
      uses.push_back(static_cast<ExpertIndex>((a + 1 + random() % 4) % 5));
    }
    const LayerUses layer = layer_of(uses, 2, 5);
    for (std::size_t slots = 0; slots <= 3; ++slots)
      EXPECT_EQ(optimum_misses(layer, slots), least_misses(layer, slots, 0, {}));
  }
}

TEST(LayerCache, NoPolicyBeatsTheOptimum) {
  std::mt19937 random(6);
  std::vector<ExpertIndex> uses;
  for (int step = 0; step < 400; ++step) {
    const std::size_t first = uses.size();
    while (uses.size() < first + 4) {
      const auto expert = static_cast<ExpertIndex>(std::min(random() % 32, random() % 32));
      if (std::find(uses.begin() + static_cast<std::ptrdiff_t>(first), uses.end(), expert) == uses.end())
        uses.push_back(expert);
    }
  }
  const LayerUses layer = layer_of(uses, 4, 32);
  for (std::size_t slots = 0; slots <= 32; slots += 3) {
    const std::uint64_t best = optimum_misses(layer, slots);
    EXPECT_GE(textbook_lru_misses(layer, slots), best);
    for (const EvictionInfo& info : eviction_policies())
      EXPECT_GE(misses_of(info.name, layer, slots), best) << info.name << slots;
  }
}

}  // namespace
}  // namespace artesian::bench
