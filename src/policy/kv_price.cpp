#include "policy/kv_price.h"

#include <algorithm>
#include <cmath>

namespace artesian {

namespace {

constexpr Nanos update_every = std::chrono::seconds(15);
constexpr double fade_s = 900;                          // an offer counts for about so long
constexpr double buys_empty = 0.5, buys_full_more = 3;  // share of the budget spent with an empty bucket; more, full
constexpr double margin_fill = 0.1;                     // below, what is worth just the price waits for the bucket

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

}  // namespace artesian
