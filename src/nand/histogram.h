// Latencies by size: 64 steps an octave, so a percentile is right within 1.6 %; minimum, maximum and mean are exact.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "nand/layout.h"

namespace artesian::nand {

class Histogram {
 public:
  void add(Time value) {
    const auto v = static_cast<std::uint64_t>(std::max<Time>(value, 0));
    const std::size_t bucket = bucket_of(v);
    if (bucket >= counts_.size()) counts_.resize(bucket + 1);
    ++counts_[bucket];
    ++count_;
    sum_ += static_cast<double>(v);
    least_ = std::min(least_, value);
    most_ = std::max(most_, value);
  }

  void add(const Histogram& other) {
    if (other.counts_.size() > counts_.size()) counts_.resize(other.counts_.size());
    for (std::size_t i = 0; i < other.counts_.size(); ++i) counts_[i] += other.counts_[i];
    count_ += other.count_;
    sum_ += other.sum_;
    least_ = std::min(least_, other.least_);
    most_ = std::max(most_, other.most_);
  }

  std::uint64_t count() const { return count_; }
  Time least() const { return count_ == 0 ? 0 : least_; }
  Time most() const { return most_; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

  // The value that a share of `share` lies at or below, to the end of its step.
  Time percentile(double share) const {
    const auto wanted = static_cast<std::uint64_t>(share * static_cast<double>(count_) + 0.9999);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen >= wanted && seen > 0) return std::min(end_of(i), most_);
    }
    return most_;
  }

 private:
  static constexpr int steps = 6;  // bits
  static std::size_t bucket_of(std::uint64_t v) {
    if (v < (1U << steps)) return v;
    const int shift = static_cast<int>(std::bit_width(v)) - steps - 1;
    return (static_cast<std::size_t>(shift) << steps) + (v >> shift);
  }
  static Time end_of(std::size_t bucket) {
    if (bucket < (2U << steps)) return static_cast<Time>(bucket);
    const std::size_t shift = (bucket >> steps) - 1;
    const std::uint64_t first = ((bucket & ((1U << steps) - 1)) | (1U << steps)) << shift;
    return static_cast<Time>(first + (std::uint64_t{1} << shift) - 1);
  }

  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  double sum_ = 0;
  Time least_ = INT64_MAX, most_ = 0;
};

}  // namespace artesian::nand
