// Caches of so many KV blocks, counted without any I/O. A prompt's hits are its blocks up to the first that is not
// there; what it misses is there at once. Blocks of one prompt are wanted leaf first, so that leaves go before roots.
#pragma once

#include <cstdint>
#include <functional>

#include "bench/kv_trace.h"
#include "policy/kv_budget.h"
#include "policy/kv_policy.h"

namespace artesian::bench {

struct KvCount {
  std::uint64_t hits = 0, late_hits = 0;  // late: of the second half of the trace's time
  std::uint64_t uses = 0, late_uses = 0;
  std::uint64_t written = 0;  // blocks, put or carried forward
  std::uint64_t carried = 0;  // of these, forward
};

using KvProgress = std::function<void(double part)>;  // may be empty

KvCount kv_lru(const KvTrace& trace, std::size_t capacity);
// One tenth of the blocks small, ghosts for as many blocks as the cache has.
KvCount kv_s3_fifo(const KvTrace& trace, std::size_t capacity);
// Belady, with bypass: what is wanted again soonest stays.
KvCount kv_optimum(const KvTrace& trace, std::size_t capacity);

struct KvPolicyRun {
  const KvAdmissionInfo* admission = nullptr;
  const KvEvictionInfo* eviction = nullptr;  // of segments; none: block by block, least worth first, or by last use
  bool by_worth = false;                     // block by block: by worth
  std::size_t capacity = 0;                  // blocks
  std::size_t segment_blocks = 0;
  std::uint64_t budget_blocks = 0;  // writes over the whole trace; 0: no limit
};
// What a day may write so that the whole trace, the full bucket of its beginning with it, writes that many blocks; 0:
// no limit.
std::uint64_t kv_bytes_per_day(const KvTrace& trace, std::uint64_t blocks, std::uint64_t block_bytes);
KvCount kv_policy(const KvTrace& trace, const KvPolicyRun& run, const KvProgress& progress);

}  // namespace artesian::bench
