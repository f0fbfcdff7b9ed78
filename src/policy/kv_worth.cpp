#include "policy/kv_worth.h"

#include <algorithm>

#include "policy/kv_eviction.h"

namespace artesian {

namespace {

class WorthAdmission final : public KvAdmission {
 public:
  explicit WorthAdmission(KvShared& shared) : shared_(shared) {}

  void on_prompt(std::span<const KvFacts> prompt, Nanos now) override { shared_.reuse.on_prompt(prompt, now); }

  bool admit(const KvFacts& block, Nanos now) override {
    if (!shared_.reuse.knows(block.key)) shared_.reuse.on_prompt(std::span(&block, 1), now);
    if (block.partial || !block.parent_stored) return false;
    const double worth = shared_.reuse.worth(shared_.reuse.state(block.key, now), now);
    shared_.price.offer(worth, kv_bytes(block), shared_.budget, now);
    return shared_.price.buys(worth, shared_.budget, now) && shared_.budget.take(kv_bytes(block), now);
  }

 private:
  KvShared& shared_;
};

class WorthEviction final : public KvEviction {
 public:
  explicit WorthEviction(KvShared& shared) : shared_(shared) {}

  std::uint64_t on_put(const KvFacts& block, Nanos now) override { return shared_.reuse.state(block.key, now); }
  std::uint64_t on_hit(const KvFacts& block, std::uint64_t state, Nanos now) override {
    return shared_.reuse.knows(block.key) ? shared_.reuse.state(block.key, now) : KvReuse::touched(state, now);
  }
  // Of one that is not wanted any more as little is known as of one that nobody has asked for.
  std::uint64_t on_outlook(const KvFacts& /*block*/, std::uint64_t state, bool wanted, Nanos now) override {
    return wanted ? KvReuse::touched(state, now) : 0;
  }

  void carry(std::span<const KvFacts> blocks, std::span<std::uint64_t> states, std::uint64_t pages_max, Nanos now,
             std::vector<bool>& out) override {
    kv_carry(blocks, pages_max, out, [&](std::size_t i) {
      const double worth = shared_.reuse.worth(states[i], now);
      if (worth < carry_worth_min) return false;
      shared_.price.offer(worth, kv_bytes(blocks[i]), shared_.budget, now);
      return shared_.price.buys(worth, shared_.budget, now) && shared_.budget.take(kv_bytes(blocks[i]), now);
    });
  }

 private:
  // What lies there costs nothing; what is carried and not wanted would have come back by itself, with the next put,
  // had it been: so it takes more than for a put.
  static constexpr double carry_worth_min = 0.4;
  KvShared& shared_;
};

}  // namespace

std::unique_ptr<KvAdmission> make_kv_worth_admission(const KvPolicySettings& /*settings*/, KvShared& shared) {
  return std::make_unique<WorthAdmission>(shared);
}
std::unique_ptr<KvEviction> make_kv_worth_eviction(const KvPolicySettings& /*settings*/, KvShared& shared) {
  return std::make_unique<WorthEviction>(shared);
}

}  // namespace artesian
