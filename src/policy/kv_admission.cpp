#include "policy/kv_admission.h"

#include "policy/kv_ghosts.h"

namespace artesian {

namespace {

constexpr double shared_reserve = 0.5;  // of the bucket: shared-first gives the rest only what lies above it

class FirstSight final : public KvAdmission {
 public:
  explicit FirstSight(KvBudget& budget) : budget_(budget) {}
  void on_prompt(std::span<const KvFacts> /*prompt*/, Nanos /*now*/) override {}
  bool admit(const KvFacts& block, Nanos now) override { return budget_.take(kv_bytes(block), now); }

 private:
  KvBudget& budget_;
};

class PrefixDepth final : public KvAdmission {
 public:
  PrefixDepth(std::uint32_t blocks_max, KvBudget& budget) : blocks_max_(blocks_max), budget_(budget) {}
  void on_prompt(std::span<const KvFacts> /*prompt*/, Nanos /*now*/) override {}
  bool admit(const KvFacts& block, Nanos now) override {
    return block.parent_stored && block.position < blocks_max_ && budget_.take(kv_bytes(block), now);
  }

 private:
  std::uint32_t blocks_max_;
  KvBudget& budget_;
};

class BySightings final : public KvAdmission {
 public:
  // Below `sightings_min` a block is admitted only from a bucket fuller than `reserve` (1: never).
  BySightings(std::uint32_t ghosts_max, std::uint32_t sightings_min, double reserve, KvBudget& budget)
      : ghosts_(ghosts_max), sightings_min_(sightings_min), reserve_(reserve), budget_(budget) {}

  void on_prompt(std::span<const KvFacts> prompt, Nanos /*now*/) override {
    for (auto block = prompt.rbegin(); block != prompt.rend(); ++block) ghosts_.see(block->key);  // leaves go first
  }

  bool admit(const KvFacts& block, Nanos now) override {
    ghosts_.see_put(block.key);
    if (!block.parent_stored) return false;
    const bool seen = ghosts_.sightings(block.key) >= sightings_min_;
    if (!seen && budget_.fill(now) <= reserve_) return false;
    return budget_.take(kv_bytes(block), now);
  }

 private:
  KvGhosts ghosts_;
  std::uint32_t sightings_min_;
  double reserve_;
  KvBudget& budget_;
};

}  // namespace

std::unique_ptr<KvAdmission> make_kv_first_sight(const KvPolicySettings& /*settings*/, KvShared& shared) {
  return std::make_unique<FirstSight>(shared.budget);
}
std::unique_ptr<KvAdmission> make_kv_prefix_depth(const KvPolicySettings& settings, KvShared& shared) {
  return std::make_unique<PrefixDepth>(settings.prefix_blocks_max, shared.budget);
}
std::unique_ptr<KvAdmission> make_kv_second_sighting(const KvPolicySettings& settings, KvShared& shared) {
  return std::make_unique<BySightings>(settings.ghosts_max, 2, 1.0, shared.budget);
}
std::unique_ptr<KvAdmission> make_kv_shared_first(const KvPolicySettings& settings, KvShared& shared) {
  return std::make_unique<BySightings>(settings.ghosts_max, settings.shared_sightings_min, shared_reserve,
                                       shared.budget);
}

}  // namespace artesian
