#include "gateway/slots.h"

#include <algorithm>
#include <array>

namespace artesian {
namespace {

constexpr std::size_t shared_min_tokens = 16;           // of a beginning that is more than a greeting
constexpr std::size_t gain_min_tokens = 16;             // of a restore beside others
constexpr double restore_bytes_per_second_guess = 1e9;  // until one was measured
constexpr double restore_fixed_seconds = 0.002;         // of the calls: 2 ms for 4 tokens here

}  // namespace

bool restore_pays(const CostFacts& facts, std::size_t held, std::size_t stored, bool beside_others) {
  if (stored <= held || (beside_others && stored < held + gain_min_tokens)) return false;
  if (facts.prefill_tokens_per_second <= 0) return true;
  const double rate =
      facts.restore_bytes_per_second > 0 ? facts.restore_bytes_per_second : restore_bytes_per_second_guess;
  const double restore = static_cast<double>(stored * facts.token_bytes) / rate + restore_fixed_seconds;
  return static_cast<double>(stored - held) / facts.prefill_tokens_per_second > restore;
}

std::optional<SlotChoice> choose_slot(std::span<const Slot> slots, std::span<const Token> tokens,
                                      const BlockKey& tenant, std::size_t stored, const CostFacts& facts) {
  std::optional<SlotChoice> fullest, oldest;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Slot& slot = slots[i];
    if (slot.busy) continue;
    const std::size_t held = slot.tenant == tenant ? common_prefix(slot.tokens, tokens) : 0;
    const auto number = static_cast<int>(i);
    if (!fullest || held > fullest->held) fullest = SlotChoice{number, held, false};
    // One that holds nothing gives nothing up, and one whose session has ended next to nothing; of the others, the one
    // used longest ago, those that somebody comes back to last.
    const auto rank = [](const Slot& one) {
      constexpr std::array weights = {2, 3, 1};  // of an outlook
      return std::pair(one.tokens.empty() ? 0 : weights[static_cast<std::size_t>(one.outlook)], one.used);
    };
    if (!oldest || rank(slot) < rank(slots[oldest->slot])) oldest = SlotChoice{number, held, false};
  }
  if (!fullest) return std::nullopt;
  const bool beside_others = std::ranges::any_of(slots, &Slot::busy);
  if (restore_pays(facts, fullest->held, stored, beside_others)) {
    // What the slot holds beyond the common part would be lost, so one that shares little is left alone.
    SlotChoice choice = 2 * fullest->held > slots[fullest->slot].tokens.size() ? *fullest : *oldest;
    choice.restore = true;
    return choice;
  }
  // A slot that shares next to nothing, as a greeting, is better left for its own conversation.
  const bool shares = fullest->held >= shared_min_tokens && 10 * fullest->held >= tokens.size();
  if (shares) return fullest;
  oldest->restore = restore_pays(facts, oldest->held, stored, beside_others);
  return oldest;
}

}  // namespace artesian
