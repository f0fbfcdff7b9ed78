// How much memory the weights may take now. Shrinks at once when there is less, grows slowly and only in calm, stays
// below the user's budget, and leaves a margin to the limit, so that it never is the cause of an out-of-memory kill.
//
// Pure: facts and time in, a target out. Not thread safe; one caller.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/units.h"

namespace artesian {

// Left free below a limit: 3 % of it, 32 MiB at least.
constexpr std::uint64_t governor_margin_bytes_min = 32 * MiB;
constexpr double governor_margin_share = 0.03;
// Growth: a step of 2 % of the ceiling, 16 MiB at least, once a second, and never before this long without pressure.
constexpr std::uint64_t governor_grow_bytes_min = 16 * MiB;
constexpr double governor_grow_share = 0.02;
constexpr Nanos governor_grow_interval = std::chrono::seconds(1);
constexpr Nanos governor_calm_time = std::chrono::seconds(5);
// Pressure (PSI, percent of the last 10 s): above the first growth stops; above the second (some or full) a tenth is
// given back, and again after this long if it lasts, since the average takes its time to fall.
constexpr double governor_psi_some_calm = 5.0;
constexpr double governor_psi_some_high = 40.0;
constexpr double governor_psi_full_high = 10.0;
constexpr double governor_give_back_share = 0.10;
constexpr Nanos governor_give_back_interval = std::chrono::seconds(3);

struct GovernorSettings {
  std::optional<std::uint64_t> budget_bytes;       // the user's, hard
  std::uint64_t minimum_bytes = 0;                 // below it the door does not work
  std::uint64_t useful_bytes = ~std::uint64_t{0};  // more than all weights is of no use
};

struct GovernorFacts {
  Nanos now{0};
  std::optional<std::uint64_t> limit_bytes;  // the control group's; none: only the machine's memory counts
  std::uint64_t unreclaimable_bytes = 0;     // held under the limit: anonymous, shared and kernel memory, ours included
  std::uint64_t committed_bytes = 0;         // ours, of those
  std::uint64_t mapped_bytes = 0;            // weights that the engine keeps mapped and needs every token
  std::uint64_t available_bytes = 0;         // of the machine (MemAvailable)
  double psi_some_percent = 0;               // of the last 10 s
  double psi_full_percent = 0;
};

struct GovernorDecision {
  std::uint64_t target_bytes = 0;   // at least the minimum, since less is of no use
  std::uint64_t ceiling_bytes = 0;  // what the facts allow, whatever the pressure
  bool below_minimum = false;       // the facts do not allow the minimum: stop using the door, or risk the limit
  std::string message;              // one sentence when below_minimum, else empty
};

constexpr std::uint64_t governor_margin(std::uint64_t limit_bytes) {
  return std::max(governor_margin_bytes_min,
                  static_cast<std::uint64_t>(governor_margin_share * static_cast<double>(limit_bytes)));
}

// What the facts allow without hysteresis.
std::uint64_t governor_ceiling(const GovernorSettings& settings, const GovernorFacts& facts);

class Governor {
 public:
  explicit Governor(GovernorSettings settings) : settings_(settings) {}

  // The first answer takes all that is there; later ones follow the facts. `now` must not go back.
  GovernorDecision decide(const GovernorFacts& facts);
  void set_budget(std::uint64_t bytes) { settings_.budget_bytes = bytes; }

 private:
  bool pressed(const GovernorFacts& facts) const;

  GovernorSettings settings_;
  std::optional<std::uint64_t> target_;  // none before the first decision
  Nanos calm_since_{0};
  Nanos grown_at_{0};
  std::optional<Nanos> gave_back_at_;
};

}  // namespace artesian
