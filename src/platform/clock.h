// The real clock: CLOCK_MONOTONIC. Safe from any thread.
#pragma once

#include "base/clock.h"

namespace artesian {

class SteadyClock final : public Clock {
 public:
  Nanos now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }
};

}  // namespace artesian
