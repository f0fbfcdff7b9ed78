// One price for every byte written, put or carried forward. What is offered is kept as a histogram of bytes by worth;
// the price is the worth above which as much was offered as the budget buys, more of it when the bucket is full, less
// when it is empty. Pure; not thread safe.
#pragma once

#include <array>
#include <cstdint>

#include "policy/kv_budget.h"

namespace artesian {

class KvPrice {
 public:
  void offer(double worth, std::uint64_t bytes, KvBudget& budget, Nanos now);
  bool buys(double worth, KvBudget& budget, Nanos now);  // worth the price; nothing is taken from the budget
  double price() const { return price_; }

 private:
  void update(KvBudget& budget, Nanos now);

  static constexpr std::size_t steps = 1000;
  std::array<double, steps + 1> offered_{};  // bytes by worth, older ones fading
  double window_s_ = 0;                      // the time in which they were offered, fading alike
  double price_ = 0.1;                       // until something is known
  Nanos updated_{0};
  bool started_ = false;
};

}  // namespace artesian
