#include "policy/kv_eviction.h"

#include <algorithm>
#include <unordered_map>

namespace artesian {

void kv_carry(std::span<const KvFacts> blocks, std::uint64_t pages_max, std::vector<bool>& out,
              const std::function<bool(std::size_t)>& take) {
  out.assign(blocks.size(), false);
  std::unordered_map<KeyHash, std::size_t, KeyHashHash> places;
  for (std::size_t i = 0; i < blocks.size(); ++i) places.emplace(blocks[i].key, i);
  std::vector<bool> decided(blocks.size(), false);
  std::vector<std::size_t> path;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    // Up to an ancestor that is decided, or whose parent is not here; then down again.
    bool parent_stays = false;
    for (std::size_t at = i;;) {
      if (decided[at]) {
        parent_stays = out[at];
        break;
      }
      decided[at] = true;
      path.push_back(at);
      const auto parent = places.find(blocks[at].parent);
      parent_stays = blocks[at].parent_stored;
      if (parent == places.end() || parent->second == at) break;
      at = parent->second;
    }
    for (; !path.empty(); path.pop_back()) {
      const std::size_t at = path.back();
      out[at] = parent_stays && blocks[at].pages <= pages_max && take(at);
      if (out[at]) pages_max -= blocks[at].pages;
      parent_stays = out[at];
    }
  }
}

namespace {

// The state counts hits since the block was written; carrying it forward takes them away.
class HitClock final : public KvEviction {
 public:
  explicit HitClock(KvBudget& budget) : budget_(budget) {}

  std::uint64_t on_put(const KvFacts& /*block*/, Nanos /*now*/) override { return 0; }
  std::uint64_t on_hit(const KvFacts& /*block*/, std::uint64_t state, Nanos /*now*/) override {
    return std::min(state + 1, kv_state_mask);
  }
  std::uint64_t on_outlook(const KvFacts& /*block*/, std::uint64_t state, bool wanted, Nanos /*now*/) override {
    return wanted ? std::max<std::uint64_t>(state, 1) : 0;
  }

  void carry(std::span<const KvFacts> blocks, std::span<std::uint64_t> states, std::uint64_t pages_max, Nanos now,
             std::vector<bool>& out) override {
    kv_carry(blocks, pages_max, out, [&](std::size_t i) {
      if (states[i] == 0 || !budget_.take(kv_bytes(blocks[i]), now)) return false;
      states[i] = 0;
      return true;
    });
  }

 private:
  KvBudget& budget_;
};

class Arrival final : public KvEviction {
 public:
  std::uint64_t on_put(const KvFacts& /*block*/, Nanos /*now*/) override { return 0; }
  std::uint64_t on_hit(const KvFacts& /*block*/, std::uint64_t state, Nanos /*now*/) override { return state; }
  std::uint64_t on_outlook(const KvFacts& /*block*/, std::uint64_t state, bool /*wanted*/, Nanos /*now*/) override {
    return state;
  }
  void carry(std::span<const KvFacts> blocks, std::span<std::uint64_t> /*states*/, std::uint64_t /*pages_max*/,
             Nanos /*now*/, std::vector<bool>& out) override {
    out.assign(blocks.size(), false);
  }
};

}  // namespace

std::unique_ptr<KvEviction> make_kv_clock(const KvPolicySettings& /*settings*/, KvShared& shared) {
  return std::make_unique<HitClock>(shared.budget);
}
std::unique_ptr<KvEviction> make_kv_arrival(const KvPolicySettings& /*settings*/, KvShared& /*shared*/) {
  return std::make_unique<Arrival>();
}

}  // namespace artesian
