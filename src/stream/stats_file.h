// What a running door tells about itself: the plugin writes a snapshot into a small shared file, `artesian stat` and
// `artesian run` read it, nobody waits for anybody.
//
// Layout of the 256 KiB: u64 magic, u64 sequence (odd while a snapshot is being written), u32 length, then that many
// bytes of JSON. Native byte order: both sides are on one machine. A reader that saw the same even sequence before and
// after has a whole snapshot. Keys that a reader does not find keep their defaults, so an older plugin can be read.
//
// Threads: StatsWriter has one owner at a time (callers serialise). It borrows the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace artesian {

constexpr std::size_t stats_file_bytes = 256U << 10;

struct LayerStats {
  std::uint32_t layer = 0;
  std::uint64_t slots = 0, resident = 0;  // experts that fit, and that are there
  std::uint64_t resident_bytes = 0;
  std::uint64_t hits = 0, misses = 0;
};

struct SpeculationStats {
  std::uint64_t issued = 0, useful = 0, late = 0;
};

// The part of the totals that fell to passes of a single token, which is what decoding for one person is.
struct DecodeStats {
  std::uint64_t tokens = 0;
  std::uint64_t hits = 0, misses = 0;
  std::uint64_t bytes_read = 0, bytes_wasted = 0;
  std::uint64_t stall_ns = 0, compute_ns = 0;
};

struct StatsSnapshot {
  int pid = 0;
  std::string state = "loading";      // loading, active, aside, refused
  std::string reason;                 // for aside and refused: why, as a clause
  std::string model, engine;          // path; "ggml 0.26.0"
  std::uint64_t budget_bytes = 0;     // the limit for what the door holds
  std::uint64_t resident_bytes = 0;   // weights in memory now
  std::uint64_t committed_bytes = 0;  // all that the door has taken of its budget
  std::uint64_t hits = 0, misses = 0;
  std::uint64_t bytes_read = 0, bytes_wasted = 0;
  std::uint64_t read_busy_ns = 0;  // time with at least one read in flight
  std::uint64_t stall_ns = 0;      // time the engine waited for bytes
  std::uint64_t compute_ns = 0;
  std::uint64_t tokens = 0;
  std::uint64_t queue_depth = 0;  // requests in flight now
  DecodeStats decode;
  SpeculationStats speculation;
  std::vector<LayerStats> layers;
};

std::string stats_to_json(const StatsSnapshot& snapshot);
Result<StatsSnapshot> stats_from_json(std::string_view text);

class StatsWriter {
 public:
  // `memory` is the mapped file, stats_file_bytes long and 8-byte aligned; zeroes or an earlier writer's.
  explicit StatsWriter(std::span<std::byte> memory);

  // Layers are left out if the text would not fit otherwise.
  void write(const StatsSnapshot& snapshot);

 private:
  std::span<std::byte> memory_;
};

// Fills all of the span from that offset of the file.
using StatsSource = std::function<Status(std::uint64_t offset, std::span<std::byte> out)>;

// not_found if nothing was ever written, retry if the writer was busy at every try (or died while writing), corrupt if
// it is not a stats file.
Result<StatsSnapshot> read_stats(const StatsSource& source);

// The same of a file.
Result<StatsSnapshot> read_stats_file(const std::string& path);

}  // namespace artesian
