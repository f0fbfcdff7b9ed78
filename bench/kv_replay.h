// Runs the KV policies over a request trace, without any I/O, beside LRU, S3-FIFO, LRU with second sighting and the
// offline optimum.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/goals.h"
#include "bench/kv_cache.h"

namespace artesian::bench {

struct KvReplayRow {
  std::string name, shape;       // shape: "blocks", or "segments of 16"
  double hit = 0, late_hit = 0;  // share of block uses; late: second half of the trace's time
  std::uint64_t written = 0;     // blocks, carried forward with them
  std::uint64_t carried = 0;
  double of_lru = 0;      // written / LRU's
  double read_saved = 0;  // hits a block written
};

struct KvReplayCase {
  std::size_t capacity = 0;
  std::vector<KvReplayRow> rows;
};

struct KvReplaySettings {
  std::vector<std::size_t> capacities = {5'000, 10'000};
  double budget_of_lru = 0.25;      // what the product's policies may write, of LRU's writes
  std::size_t segment_blocks = 16;  // 1 GiB of 64 MiB blocks
};

Result<std::vector<KvReplayCase>> replay_kv(const KvTrace& trace, const KvReplaySettings& settings,
                                            const std::function<void(double part)>& progress);
std::string kv_replay_text(std::span<const KvReplayCase> cases, std::uint64_t block_bytes);
std::string kv_replay_json(std::span<const KvReplayCase> cases, std::uint64_t block_bytes);

KvReplayRow kv_replay_row(std::string name, std::string shape, const KvCount& count, std::uint64_t lru_written);
Status check_kv_capacity(std::size_t capacity, const KvReplaySettings& settings);  // at least four segments

// For the goals of section "kv".
std::vector<GoalFigure> kv_replay_figures(std::span<const KvReplayCase> cases);

}  // namespace artesian::bench
