// What a workload asks of a model server, and what came of it in tokens, joules and money. Plain data and arithmetic;
// who runs it is in sim/.
#pragma once

#include <cstdint>
#include <string>

#include "nand/drive.h"
#include "nand/histogram.h"

namespace artesian::nand {

struct Serving {
  // [model]: what the drive is there for
  double prefill = 5000, decode = 50;            // tokens a second when nothing waits for the drive
  std::uint64_t kv_token_bytes = 65536;          // keys and values of a token
  double kv_compress = 1, weights_compress = 1;  // what a drive that compresses makes of them: so much less
  double watts = 0, usd_per_hour = 0;            // of the machine while it computes or waits for its drive
  // [kv]: requests of a trace, their KV blocks through the store
  std::string trace;              // file; empty: none
  std::uint64_t requests = 0;     // the first so many; 0: all
  double speed = 1;               // of the trace's time
  std::uint64_t store_bytes = 0;  // 0: what is left of the drive
  std::string policy = "chats";   // of the namespace
  // [experts]: decode steps of recorded routes, experts through the loader
  std::string routes;              // file; empty: none
  double cycles = 1;               // memory for experts, in what one token reads if none is there; or
  std::uint64_t memory_bytes = 0;  // in bytes, if not 0
  std::uint64_t tokens = 0;        // to decode; 0: all that are recorded
  std::uint64_t prompt = 512;      // tokens of the prompt before

  bool any() const { return !trace.empty() || !routes.empty(); }
};

struct TokenReport {
  Histogram first_token;                               // from a request's arrival to its first token
  std::uint64_t prompt_tokens = 0, reused_tokens = 0;  // of the prompts, read instead of computed
  std::uint64_t output_tokens = 0;                     // after requests of a trace; decoding them is not simulated
  std::uint64_t decoded_tokens = 0;                    // through the loader
  double decode_seconds = 0;                           // for those, waits for the drive included
  double machine_seconds = 0;                          // computing, or waiting for weights
  double seconds = 0;                                  // in all
  std::uint64_t blocks_checked = 0, blocks_lost = 0;   // read back and compared; found and then not there
  std::uint64_t weights_checked = 0;                   // bytes of experts that were loaded and compared
  std::uint64_t store_written = 0, store_carried = 0;  // bytes

  double tokens() const { return static_cast<double>(prompt_tokens + output_tokens + decoded_tokens); }
  double tokens_per_second() const { return seconds > 0 ? tokens() / seconds : 0; }
  double decode_rate() const { return decode_seconds > 0 ? static_cast<double>(decoded_tokens) / decode_seconds : 0; }
  // Prompt tokens that a machine at work all the time would serve in a second.
  double prompt_rate() const;
  void add(const TokenReport& other);
};

// Of a million tokens.
struct TokenCost {
  double drive_joules = 0, machine_joules = 0;
  double drive_usd = 0;  // the whole drive, written off over its life or its service years, whichever ends first
  double energy_usd = 0, machine_usd = 0;
  double joules() const { return drive_joules + machine_joules; }
  double usd() const { return drive_usd + energy_usd + machine_usd; }
};
TokenCost cost_of(const TokenReport& tokens, const Serving& serving, const Profile& profile, std::uint64_t whole_bytes,
                  const EnergyReport& energy, double years);

}  // namespace artesian::nand
