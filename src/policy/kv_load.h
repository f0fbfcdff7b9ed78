// Load or recompute: how much of a stored prefix is worth reading, given what the device has queued and how fast the
// engine would compute it. Pure.
#pragma once

#include <cstdint>
#include <span>

namespace artesian {

struct KvLoadFacts {
  double bytes_per_second = 0;           // of the device, measured; 0: unknown
  std::uint64_t queued_bytes = 0;        // in front of this read
  double read_latency_s = 0;             // of one read with nothing queued
  double prefill_tokens_per_second = 0;  // of the engine; 0: unknown
  double attention_tokens = 0;           // prefix length at which a token costs twice the first one's; 0: never
};

struct KvLoadBlock {
  std::uint64_t bytes = 0;
  std::uint32_t tokens = 0;
};

// How many tokens, from the front, to load: the prefix length (whole blocks, in order) that leaves the least time until
// all of them are there, loaded or computed, the device and the engine working one after the other. All of them where
// either speed is unknown.
std::uint64_t kv_tokens_worth_loading(std::span<const KvLoadBlock> prefix, const KvLoadFacts& facts);

}  // namespace artesian
