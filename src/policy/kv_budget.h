// Bytes that may be written a day, as a bucket that fills with time: what is carried forward counts like what is put.
// Pure; not thread safe.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace artesian {

struct KvBudgetSettings {
  std::uint64_t bytes_per_day = 0;          // 0: no limit
  Nanos burst = std::chrono::seconds(900);  // the bucket holds what arrives in so long, and begins full
};

class KvBudget {
 public:
  explicit KvBudget(KvBudgetSettings settings);

  bool take(std::uint64_t bytes, Nanos now);   // false, and nothing is taken, if there is not so much
  void spend(std::uint64_t bytes, Nanos now);  // what must be written, also into debt
  void give_back(std::uint64_t bytes);         // taken, and not written after all
  double fill(Nanos now);                      // 0 to 1, below with a debt; 1 without a limit
  bool limited() const { return rate_ > 0; }
  double bytes_per_second() const { return rate_; }

 private:
  void advance(Nanos now);

  double rate_ = 0, size_ = 0, level_ = 0;  // bytes a second, bytes, bytes
  Nanos last_{0};
  bool started_ = false;
};

}  // namespace artesian
