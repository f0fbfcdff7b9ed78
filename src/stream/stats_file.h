// What running doors tell about themselves: the plugin writes snapshots into a small shared file, `artesian stat` and
// `artesian run` read them, nobody waits for anybody. A program may have several models, and child processes that have
// models of their own; each door takes a region of the file.
//
// Layout of a region of 256 KiB: u64 magic, u64 sequence (odd while a snapshot is being written), u32 length, u32
// number of the process that owns it, then `length` bytes of JSON. Native byte order: both sides are on one machine. A
// reader that saw the same even sequence before and after has a whole snapshot. Keys that a reader does not find keep
// their defaults, so an older plugin can be read.
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

constexpr std::size_t stats_region_bytes = 256U << 10;
constexpr std::size_t stats_regions = 32;
constexpr std::size_t stats_file_bytes = stats_regions * stats_region_bytes;  // pages only where something is written

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

  DecodeStats& operator+=(const DecodeStats& other);
  DecodeStats& operator-=(const DecodeStats& other);
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

// Takes a region of the mapped file (8-byte aligned) for process `pid`: one that nobody has had, or else one whose
// process has ended. Empty if there is none. Processes and threads may ask at once.
std::span<std::byte> claim_stats_region(std::span<std::byte> file, int pid,
                                        const std::function<bool(int pid)>& process_lives);

class StatsWriter {
 public:
  // `memory` is a region, stats_region_bytes long and 8-byte aligned; zeroes or an earlier writer's.
  explicit StatsWriter(std::span<std::byte> memory);

  // Layers are left out if the text would not fit otherwise.
  void write(const StatsSnapshot& snapshot);

 private:
  std::span<std::byte> memory_;
};

// Fills all of the span from that offset of the region or the file.
using StatsSource = std::function<Status(std::uint64_t offset, std::span<std::byte> out)>;

// not_found if nothing was ever written, retry if the writer was busy at every try (or died while writing), corrupt if
// it is not a stats file.
Result<StatsSnapshot> read_stats(const StatsSource& region);

// All that a file tells, in the order of the regions, less those that cannot be read (a process killed while it wrote)
// unless there is no other; not_found if nothing was ever written.
Result<std::vector<StatsSnapshot>> read_all_stats(const StatsSource& file);

// One snapshot for several (at least one): figures added up; state, model and process are those of the one whose door
// was open furthest.
StatsSnapshot add_up(std::span<const StatsSnapshot> snapshots);

// All that the file at `path` tells.
Result<std::vector<StatsSnapshot>> read_stats_file(const std::string& path);

}  // namespace artesian
