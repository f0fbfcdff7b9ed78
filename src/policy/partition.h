// How a budget for experts is shared between the layers. Pure; safe from any thread.
//
// Every layer gets slots for the same number of token cycles (in multiples of the experts it uses per token), whatever
// its experts weigh: with similar routing one more slot then saves the same bytes per byte in every layer. What a layer
// cannot use (it has no more experts) goes to the others. Uneven splits were tried and do not pay:
// docs/decisions/0004-residency.md.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace artesian {

struct ExpertLayer {
  std::uint64_t expert_bytes = 0;  // what one slot costs, all companions and padding together
  std::uint32_t experts = 0;
  std::uint32_t used = 0;  // per token
};

struct Partition {
  std::vector<std::uint32_t> slots;  // by layer, at most its experts
  std::uint64_t bytes = 0;  // of all slots; at most the budget, and no slot that is missing would fit in what is left
};

// Bytes read per token when nothing is resident; the unit in which budgets are compared.
std::uint64_t token_cycle_bytes(std::span<const ExpertLayer> layers);

// `slots_min` slots go to every layer first (all of them where a layer has fewer). Code::rejected with the least budget
// when those do not fit; Code::invalid when a layer's used is 0 or above its experts, its bytes are 0, or the sum
// overflows.
Result<Partition> partition_slots(std::span<const ExpertLayer> layers, std::uint64_t budget_bytes,
                                  std::uint32_t slots_min = 0);

}  // namespace artesian
