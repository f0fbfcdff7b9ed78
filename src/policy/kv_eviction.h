// The plain eviction policies of a log of segments: clock and arrival (see the registry).
#pragma once

#include "policy/kv_policy.h"

namespace artesian {

// Marks in `out` the first `pages_max` pages of blocks that `wanted` marks, and no block whose parent is among `blocks`
// and unmarked: leaf before root.
void kv_carry_wanted(std::span<const KvFacts> blocks, const std::vector<bool>& wanted, std::uint64_t pages_max,
                     std::vector<bool>& out);

std::unique_ptr<KvEviction> make_kv_clock(const KvPolicySettings& settings, KvReuse& reuse, KvBudget& budget);
std::unique_ptr<KvEviction> make_kv_arrival(const KvPolicySettings& settings, KvReuse& reuse, KvBudget& budget);

}  // namespace artesian
