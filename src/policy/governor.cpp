#include "policy/governor.h"

#include <fmt/format.h>

namespace artesian {

namespace {

// a + b - c, between 0 and the largest number there is.
std::uint64_t left_of(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) sum = ~std::uint64_t{0};
  return sum > c ? sum - c : 0;
}

}  // namespace

std::uint64_t governor_ceiling(const GovernorSettings& settings, const GovernorFacts& facts) {
  // What is there is what we hold already plus what is free; what the engine maps must stay resident beside it, and the
  // kernel counts those pages as free to take.
  const std::uint64_t machine = left_of(facts.available_bytes, facts.committed_bytes, 0);
  std::uint64_t ceiling = left_of(machine, 0, governor_margin(machine) + facts.mapped_bytes);
  if (facts.limit_bytes) {
    const std::uint64_t others = left_of(facts.unreclaimable_bytes, 0, facts.committed_bytes);
    const std::uint64_t taken = left_of(others, facts.mapped_bytes, 0);
    ceiling = std::min(ceiling, left_of(*facts.limit_bytes, 0, left_of(taken, governor_margin(*facts.limit_bytes), 0)));
  }
  ceiling = std::min(ceiling, settings.useful_bytes);
  return settings.budget_bytes ? std::min(ceiling, *settings.budget_bytes) : ceiling;
}

bool Governor::pressed(const GovernorFacts& facts) const {
  return facts.psi_full_percent >= governor_psi_full_high || facts.psi_some_percent >= governor_psi_some_high;
}

GovernorDecision Governor::decide(const GovernorFacts& facts) {
  GovernorDecision decision;
  decision.ceiling_bytes = governor_ceiling(settings_, facts);
  if (!target_) {
    target_ = decision.ceiling_bytes;
    calm_since_ = facts.now;
    grown_at_ = facts.now;
  }
  std::uint64_t target = *target_;
  if (facts.psi_some_percent > governor_psi_some_calm || decision.ceiling_bytes < target) calm_since_ = facts.now;

  if (pressed(facts) && (!gave_back_at_ || facts.now - *gave_back_at_ >= governor_give_back_interval)) {
    target -= static_cast<std::uint64_t>(governor_give_back_share * static_cast<double>(target));
    gave_back_at_ = facts.now;
  }
  const std::uint64_t step =
      std::max(governor_grow_bytes_min,
               static_cast<std::uint64_t>(governor_grow_share * static_cast<double>(decision.ceiling_bytes)));
  if (decision.ceiling_bytes > target && facts.now - calm_since_ >= governor_calm_time &&
      facts.now - grown_at_ >= governor_grow_interval) {
    target += std::min(step, decision.ceiling_bytes - target);
    grown_at_ = facts.now;
  }
  target = std::min(target, decision.ceiling_bytes);

  if (decision.ceiling_bytes < settings_.minimum_bytes) {
    decision.below_minimum = true;
    decision.message = fmt::format("weights need {} at least, and only {} can be had",
                                   format_size(settings_.minimum_bytes), format_size(decision.ceiling_bytes));
  }
  target_ = std::max(target, settings_.minimum_bytes);
  decision.target_bytes = *target_;
  return decision;
}

}  // namespace artesian
