#include "policy/kv_eviction.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "policy/kv_budget.h"

namespace artesian {

void kv_carry_wanted(std::span<const KvFacts> blocks, const std::vector<bool>& wanted, std::uint64_t pages_max,
                     std::vector<bool>& out) {
  out.assign(blocks.size(), false);
  std::unordered_map<KeyHash, std::size_t, KeyHashHash> places;
  for (std::size_t i = 0; i < blocks.size(); ++i) places.emplace(blocks[i].key, i);
  std::vector<std::size_t> order(blocks.size());  // roots first, so that a parent is decided before its children
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return blocks[i].position; });
  for (const std::size_t i : order) {
    if (!wanted[i] || blocks[i].pages > pages_max) continue;
    const auto parent = places.find(blocks[i].parent);
    if (parent != places.end() && parent->second != i && !out[parent->second]) continue;
    out[i] = true;
    pages_max -= blocks[i].pages;
  }
}

namespace {

// The state counts hits since the block was written, and carrying it forward takes them away.
class ByHits final : public KvEviction {
 public:
  ByHits(bool carries, KvBudget& budget) : carries_(carries), budget_(budget) {}

  std::uint64_t on_put(const KvFacts& /*block*/, Nanos /*now*/) override { return 0; }
  std::uint64_t on_hit(const KvFacts& /*block*/, std::uint64_t state, Nanos /*now*/) override { return state + 1; }
  std::size_t victim(std::span<const KvSegment> /*sealed*/, Nanos /*now*/) override { return 0; }
  std::uint8_t lifetime(const KvFacts& /*block*/, bool carried) override { return carried ? 1 : 0; }

  void carry(std::span<const KvFacts> blocks, std::span<const std::uint64_t> states, std::uint64_t pages_max, Nanos now,
             std::vector<bool>& out) override {
    std::vector<bool> wanted(blocks.size(), false);
    for (std::size_t i = 0; carries_ && i < blocks.size(); ++i) {
      wanted[i] = states[i] > 0 && budget_.take(std::uint64_t{blocks[i].pages} * 4096, now);
    }
    kv_carry_wanted(blocks, wanted, pages_max, out);
  }

 private:
  bool carries_;
  KvBudget& budget_;
};

}  // namespace

std::unique_ptr<KvEviction> make_kv_clock(const KvPolicySettings& /*settings*/, KvReuse& /*reuse*/, KvBudget& budget) {
  return std::make_unique<ByHits>(true, budget);
}
std::unique_ptr<KvEviction> make_kv_arrival(const KvPolicySettings& /*settings*/, KvReuse& /*reuse*/,
                                            KvBudget& budget) {
  return std::make_unique<ByHits>(false, budget);
}

}  // namespace artesian
