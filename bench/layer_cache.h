// One layer's experts under a cache of so many slots, counted without any I/O.
//
// The product serves a step as a whole: what is resident when the router has chosen is a hit, then each missing expert
// (in falling order of router weight) takes a free slot, or the one its policy names among experts that the step does
// not use, or none. A textbook cache sees one expert after the other and may throw out what the same step needs next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "policy/eviction.h"

namespace artesian::bench {

// The uses of one layer: `used` distinct experts a step.
struct LayerUses {
  std::span<const ExpertIndex> uses;
  std::size_t used = 0;
  std::size_t experts = 0;
};

// Misses of each, starting empty.
std::uint64_t policy_misses(const LayerUses& layer, std::size_t slots, EvictionPolicy& policy);
std::uint64_t textbook_lru_misses(const LayerUses& layer, std::size_t slots);
// Belady, bypass allowed: after each step the experts whose next use is nearest stay, among those resident and those
// just read. No policy can miss less with these slots.
std::uint64_t optimum_misses(const LayerUses& layer, std::size_t slots);

}  // namespace artesian::bench
