#include "policy/kv_worth.h"

#include <algorithm>
#include <cmath>

#include "policy/kv_eviction.h"

namespace artesian {

namespace {

constexpr Nanos update_every = std::chrono::seconds(15);
constexpr double fade_s = 900;                          // an offer counts for about so long
constexpr double buys_empty = 0.5, buys_full_more = 3;  // share of the budget spent with an empty bucket; more, full
constexpr double margin_fill = 0.1;                     // below, what is worth just the price waits for the bucket

std::uint64_t bytes_of(const KvFacts& block) {
  return std::uint64_t{block.pages} * 4096;
}

double seconds(Nanos span) {
  return std::chrono::duration<double>(span).count();
}

}  // namespace

void KvPrice::offer(double worth, std::uint64_t bytes, KvBudget& budget, Nanos now) {
  if (!started_ || now - updated_ >= update_every) update(budget, now);
  const auto step = static_cast<std::size_t>(std::clamp(worth, 0.0, 1.0) * steps);
  offered_[step] += static_cast<double>(bytes);
}

bool KvPrice::buys(double worth, KvBudget& budget, Nanos now) {
  if (!budget.limited()) return true;
  return worth >= price_ + 1.0 / steps || (worth >= price_ && budget.fill(now) >= margin_fill);
}

void KvPrice::update(KvBudget& budget, Nanos now) {
  const double passed = started_ ? seconds(now - updated_) : 0;
  started_ = true;
  updated_ = now;
  window_s_ += passed;
  if (passed <= 0) return;
  const double wanted = budget.bytes_per_second() * window_s_ * (buys_empty + buys_full_more * budget.fill(now));
  double above = 0;
  std::size_t step = steps + 1;
  while (step > 0 && above <= wanted) above += offered_[--step];
  price_ = static_cast<double>(step) / steps;
  const double keep = std::exp(-passed / fade_s);
  for (double& bytes : offered_) bytes *= keep;
  window_s_ *= keep;
}

namespace {

class WorthAdmission final : public KvAdmission {
 public:
  WorthAdmission(KvReuse& reuse, KvBudget& budget) : reuse_(reuse), budget_(budget) {}

  void on_prompt(std::span<const KvFacts> prompt, Nanos now) override { reuse_.on_prompt(prompt, now); }

  bool admit(const KvFacts& block, Nanos now) override {
    const std::uint64_t state = reuse_.state(block.key, now);
    if (KvReuse::partial(state)) return false;
    const double worth = reuse_.worth(state, now);
    price_.offer(worth, bytes_of(block), budget_, now);
    return block.parent_stored && price_.buys(worth, budget_, now) && budget_.take(bytes_of(block), now);
  }

 private:
  KvReuse& reuse_;
  KvBudget& budget_;
  KvPrice price_;
};

class WorthEviction final : public KvEviction {
 public:
  WorthEviction(KvReuse& reuse, KvBudget& budget) : reuse_(reuse), budget_(budget) {}

  std::uint64_t on_put(const KvFacts& block, Nanos now) override { return reuse_.state(block.key, now); }
  std::uint64_t on_hit(const KvFacts& block, std::uint64_t state, Nanos now) override {
    const std::uint64_t known = reuse_.state(block.key, now);
    return known == KvReuse::touched(0, now) ? KvReuse::touched(state, now) : known;  // not remembered: as it was
  }
  std::size_t victim(std::span<const KvSegment> /*sealed*/, Nanos /*now*/) override { return 0; }
  std::uint8_t lifetime(const KvFacts& /*block*/, bool carried) override { return carried ? 1 : 0; }

  void carry(std::span<const KvFacts> blocks, std::span<const std::uint64_t> states, std::uint64_t pages_max, Nanos now,
             std::vector<bool>& out) override {
    std::vector<bool> wanted(blocks.size(), false);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const double worth = reuse_.worth(states[i], now);
      price_.offer(worth, bytes_of(blocks[i]), budget_, now);
      wanted[i] =
          worth >= carry_worth_min && price_.buys(worth, budget_, now) && budget_.take(bytes_of(blocks[i]), now);
    }
    kv_carry_wanted(blocks, wanted, pages_max, out);
  }

 private:
  static constexpr double carry_worth_min = 0.05;  // also without a budget: what is dead is not carried round and round
  KvReuse& reuse_;
  KvBudget& budget_;
  KvPrice price_;
};

}  // namespace

std::unique_ptr<KvAdmission> make_kv_worth_admission(const KvPolicySettings& /*settings*/, KvReuse& reuse,
                                                     KvBudget& budget) {
  return std::make_unique<WorthAdmission>(reuse, budget);
}
std::unique_ptr<KvEviction> make_kv_worth_eviction(const KvPolicySettings& /*settings*/, KvReuse& reuse,
                                                   KvBudget& budget) {
  return std::make_unique<WorthEviction>(reuse, budget);
}

}  // namespace artesian
