#include "policy/kv_load.h"

namespace artesian {

namespace {

// Seconds to compute tokens `begin` to `end` of a prompt: a share that is constant, and one that grows with the prefix.
double compute_s(double begin, double end, const KvLoadFacts& facts) {
  const double grown = facts.attention_tokens > 0 ? (end * end - begin * begin) / (2 * facts.attention_tokens) : 0;
  return (end - begin + grown) / facts.prefill_tokens_per_second;
}

}  // namespace

std::uint64_t kv_tokens_worth_loading(std::span<const KvLoadBlock> prefix, const KvLoadFacts& facts) {
  std::uint64_t total = 0;
  for (const KvLoadBlock& block : prefix) total += block.tokens;
  if (!(facts.bytes_per_second > 0) || !(facts.prefill_tokens_per_second > 0)) return total;
  const auto all = static_cast<double>(total);
  double best_s = compute_s(0, all, facts);
  std::uint64_t best = 0;
  double load_s = static_cast<double>(facts.queued_bytes) / facts.bytes_per_second + facts.read_latency_s;
  std::uint64_t tokens = 0;
  for (const KvLoadBlock& block : prefix) {
    load_s += static_cast<double>(block.bytes) / facts.bytes_per_second;
    tokens += block.tokens;
    const double whole_s = load_s + compute_s(static_cast<double>(tokens), all, facts);
    if (whole_s < best_s) {
      best_s = whole_s;
      best = tokens;
    }
  }
  return best;
}

}  // namespace artesian
