// The real clock: CLOCK_MONOTONIC. Safe from any thread.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace artesian {

class SteadyClock final : public Clock {
 public:
  Nanos now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }
};

// Unix time in milliseconds; may go back.
inline std::uint64_t unix_time_ms() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(since).count());
}

}  // namespace artesian
