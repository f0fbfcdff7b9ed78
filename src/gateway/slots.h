// What each of the server's slots holds, and which one a request had better go to. Facts in, choice out: no I/O.
//
// Threads: one caller at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "artesian/store.h"
#include "format/slot_file.h"
#include "gateway/prefix_tree.h"

namespace artesian {

struct Slot {
  bool busy = false;
  bool unsaved = false;       // holds what was not offered to the store yet
  std::vector<Token> tokens;  // that it begins with, as far as is known
  BlockKey tenant{};          // whose they are
  std::uint64_t used = 0;     // rises with each use
  std::string session;        // as the client names it, if it does
  Outlook outlook = Outlook::unknown;
  Nanos back{0};  // when an awaited one is expected
};

// What restoring and computing cost here, as measured so far; 0 is "not known yet".
struct CostFacts {
  double prefill_tokens_per_second = 0;
  double restore_bytes_per_second = 0;
  std::uint64_t token_bytes = 0;
};

// Whether to read a context of `stored` tokens back when the slot holds the first `held` of them. Beside other requests
// it waits for a batch of theirs, so that a few tokens are better computed.
bool restore_pays(const CostFacts& facts, std::size_t held, std::size_t stored, bool beside_others = false);

struct SlotChoice {
  int slot = 0;
  std::size_t held = 0;  // tokens of the request that are in it, of the same tenant
  bool restore = false;
};

// For a request of these tokens, of which the store has the first `stored`. Nothing if all slots are busy.
std::optional<SlotChoice> choose_slot(std::span<const Slot> slots, std::span<const Token> tokens,
                                      const BlockKey& tenant, std::size_t stored, const CostFacts& facts);

}  // namespace artesian
