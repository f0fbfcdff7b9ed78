// How much may be written to flash: so many bytes a day, of which what was not used is kept up to a day's worth.
//
// Threads: one caller at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/clock.h"

namespace artesian {

class WriteBudget {
 public:
  // 0: no limit.
  WriteBudget(std::uint64_t bytes_per_day, Nanos now)
      : bytes_per_day_(bytes_per_day), left_(static_cast<double>(bytes_per_day)), filled_(now) {}

  std::uint64_t available(Nanos now) {
    if (bytes_per_day_ == 0) return std::numeric_limits<std::uint64_t>::max();
    constexpr double day = 24.0 * 3600 * 1e9;
    const double share = static_cast<double>((now - filled_).count()) / day;
    left_ = std::min(left_ + share * static_cast<double>(bytes_per_day_), static_cast<double>(bytes_per_day_));
    filled_ = now;
    return left_ > 0 ? static_cast<std::uint64_t>(left_) : 0;
  }
  void spend(std::uint64_t bytes) { left_ -= static_cast<double>(bytes); }

 private:
  std::uint64_t bytes_per_day_;
  double left_;
  Nanos filled_;
};

}  // namespace artesian
