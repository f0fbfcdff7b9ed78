#include "bench/layer_cache.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace artesian::bench {

namespace {

template <typename Step>
void for_each_step(const LayerUses& layer, Step&& step) {
  for (std::size_t at = 0; at + layer.used <= layer.uses.size(); at += layer.used)
    step(layer.uses.subspan(at, layer.used), at);
}

bool contains(std::span<const ExpertIndex> experts, ExpertIndex expert) {
  return std::find(experts.begin(), experts.end(), expert) != experts.end();
}

}  // namespace

std::uint64_t policy_misses(const LayerUses& layer, std::size_t slots, EvictionPolicy& policy) {
  std::uint64_t misses = 0;
  std::size_t filled = 0;
  std::vector<bool> resident(layer.experts);
  std::vector<std::size_t> chosen_at(layer.experts, 0);  // 1 + position of the step that last chose it
  std::vector<ExpertIndex> idle;
  for_each_step(layer, [&](std::span<const ExpertIndex> chosen, std::size_t first) {
    policy.on_use(chosen);
    for (const ExpertIndex expert : chosen) chosen_at[expert] = first + 1;
    idle.clear();
    for (ExpertIndex expert = 0; expert < layer.experts; ++expert) {
      if (resident[expert] && chosen_at[expert] != first + 1) idle.push_back(expert);
    }
    for (const ExpertIndex expert : chosen) {
      if (resident[expert]) continue;
      ++misses;
      if (filled < slots) {
        ++filled;
      } else {
        if (idle.empty()) continue;
        const auto victim = policy.victim(idle, expert);
        if (!victim) continue;
        resident[idle[*victim]] = false;
        idle.erase(idle.begin() + static_cast<std::ptrdiff_t>(*victim));
      }
      resident[expert] = true;
    }
  });
  return misses;
}

std::uint64_t textbook_lru_misses(const LayerUses& layer, std::size_t slots) {
  std::uint64_t misses = 0;
  std::vector<ExpertIndex> cache;  // least recently used first
  for (const ExpertIndex expert : layer.uses) {
    const auto found = std::find(cache.begin(), cache.end(), expert);
    if (found != cache.end()) {
      cache.erase(found);
    } else {
      ++misses;
      if (slots == 0) continue;
      if (cache.size() == slots) cache.erase(cache.begin());
    }
    cache.push_back(expert);
  }
  return misses;
}

std::uint64_t optimum_misses(const LayerUses& layer, std::size_t slots) {
  constexpr std::size_t never = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> next_use(layer.uses.size(), never);  // by position: when the same expert is used again
  std::vector<std::size_t> seen(layer.experts, never);
  for (std::size_t at = layer.uses.size(); at-- > 0;) {
    next_use[at] = seen[layer.uses[at]];
    seen[layer.uses[at]] = at / layer.used;
  }

  std::uint64_t misses = 0;
  std::vector<std::size_t> next(layer.experts, never);  // by expert, as known after the current step
  std::vector<ExpertIndex> cache;
  for_each_step(layer, [&](std::span<const ExpertIndex> chosen, std::size_t first) {
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      next[chosen[i]] = next_use[first + i];
      if (contains(cache, chosen[i])) continue;
      ++misses;
      cache.push_back(chosen[i]);
    }
    if (cache.size() <= slots) return;
    std::ranges::stable_sort(cache, {}, [&](ExpertIndex expert) { return next[expert]; });
    cache.resize(slots);
  });
  return misses;
}

}  // namespace artesian::bench
