// The plain eviction policies of a log of segments: clock and arrival (see the registry).
#pragma once

#include <functional>

#include "policy/kv_policy.h"
#include "policy/kv_shared.h"

namespace artesian {

// Goes over a segment's live blocks, in order but parents first, and asks `take` for those that could be carried
// forward: their parent is not in the segment and stored, or is and was taken. Stops asking where `pages_max` is full.
void kv_carry(std::span<const KvFacts> blocks, std::uint64_t pages_max, std::vector<bool>& out,
              const std::function<bool(std::size_t)>& take);

std::unique_ptr<KvEviction> make_kv_clock(const KvPolicySettings& settings, KvShared& shared);
std::unique_ptr<KvEviction> make_kv_arrival(const KvPolicySettings& settings, KvShared& shared);

}  // namespace artesian
