// How long requests took: a histogram whose buckets are two for each doubling, from 1 us to a day. Pure; the owner's
// lock.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "base/clock.h"

namespace artesian {

class Latencies {
 public:
  void add(Nanos time) {
    const auto us = static_cast<std::uint64_t>(std::max<std::int64_t>(1, time.count() / 1000));
    const auto octave = static_cast<std::size_t>(std::bit_width(us)) - 1;
    const bool upper = octave > 0 && (us >> (octave - 1) & 1) != 0;
    ++counts_[std::min(2 * octave + (upper ? 1 : 0), counts_.size() - 1)];
    ++all_;
  }

  // Microseconds within which that part of all lay, at most; 0 without any.
  std::uint64_t within_us(double part) const {
    if (all_ == 0) return 0;
    const double wanted = part * static_cast<double>(all_);
    std::uint64_t sum = 0;
    std::size_t i = 0;
    while (i + 1 < counts_.size() && static_cast<double>(sum += counts_[i]) < wanted) ++i;
    const std::uint64_t octave = std::uint64_t{1} << i / 2;
    return i % 2 == 0 ? octave + octave / 2 : 2 * octave;
  }

 private:
  std::array<std::uint64_t, 74> counts_{};
  std::uint64_t all_ = 0;
};

}  // namespace artesian
