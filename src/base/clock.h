// Time comes from outside. Nothing above platform/ reads a clock by itself: it is handed a Clock, real or virtual.
#pragma once

#include <chrono>

namespace artesian {

// Nanoseconds since an arbitrary start; never goes back.
using Nanos = std::chrono::nanoseconds;

// Safe to call from any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Nanos now() const = 0;
};

// A clock that stands still until somebody moves it; for tests and simulation. Not thread safe.
class ManualClock final : public Clock {
 public:
  Nanos now() const override { return now_; }
  void advance(Nanos step) { now_ += step; }
  void advance_to(Nanos when) {
    if (when > now_) now_ = when;
  }

 private:
  Nanos now_{0};
};

}  // namespace artesian
