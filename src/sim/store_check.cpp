#include "sim/store_check.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/units.h"
#include "sim/store_on_nand.h"

namespace artesian::sim {
namespace {

using nand::CheckOptions;
using nand::CheckRow;
using nand::Profile;

constexpr std::uint64_t lifetimes = 4;

// A drive with 7 % to spare, as those that are sold, in many small superblocks.
Profile drive(bool quick, bool handles) {
  Profile p;
  p.name = p.title = "placement";
  p.channels = 4;
  p.dies_per_channel = 2;
  p.page_bytes = p.map_unit_bytes = 4096;
  p.blocks_per_plane = quick ? 512 : 2048;  // open superblocks must be few of the spare ones
  p.wordlines_per_block = quick ? 8 : 32;
  p.read_us = {20};
  p.program_us = 100;
  p.erase_us = 1000;
  p.pe_cycles = 1e9;
  p.capacity_bytes = align_down(static_cast<std::uint64_t>(static_cast<double>(p.physical_bytes()) / 1.07), 4096);
  p.collect_below = 2;
  p.buffer_bytes = 1 * MiB;
  p.placement_handles = handles ? lifetimes + 1 : 1;
  return p;
}

Result<StoreRun> run(const CheckOptions& options, bool handles, StoreLoad load) {
  load.block_bytes = options.quick ? 32 * KiB : 64 * KiB;
  if (options.quick) {
    load.windows = 2;
    load.settled = 0.005;
  }
  return run_store_on_nand(drive(options.quick, handles), load);
}

void add(std::vector<CheckRow>& rows, const CheckOptions& options, CheckRow row) {
  if (options.progress) options.progress(row);
  rows.push_back(std::move(row));
}

std::string window_text(const StoreRun& run) {
  const auto [least, most] = std::ranges::minmax(run.window_wa);
  return fmt::format("{} after {} drive writes, in which it was {:.3f} to {:.3f} and last {:.3f}",
                     run.settled ? "settled" : "NOT SETTLED", run.window_wa.size(), least, most, run.window_wa.back());
}

// `percent` of what the host writes are small overwrites of a region.
Status check_mixed(std::vector<CheckRow>& rows, const CheckOptions& options, int percent) {
  const StoreLoad load{.lifetimes = lifetimes, .region_writes = percent / 100.0};
  const auto apart = run(options, true, load);
  if (!apart) return fail(apart.error());
  const auto mixed = run(options, false, load);
  if (!mixed) return fail(mixed.error());
  CheckRow with{
      .name = fmt::format("handles.{}", percent),
      .what = fmt::format("the store on handles, drive full, {} % of the writes overwrite 4 % of it", percent),
      .figure = apart->write_amplification,
      .reference = 1.05,
      .unit = "x",
      .goal = "at most",
      .note = fmt::format("{}; carried forward by the store: {} of {}; {} blocks compared; CacheLib on FDP: 1.03",
                          window_text(*apart), format_bytes(apart->carried_bytes),
                          format_bytes(apart->host_written_bytes), apart->blocks_checked)};
  with.met = apart->settled && with.figure <= with.reference;
  with.judged = !options.quick;  // so small a drive has too much of its spare space in open superblocks
  add(rows, options, std::move(with));
  CheckRow without{.name = fmt::format("handles.{}.none", percent),
                   .what = "the same on a drive without handles",
                   .figure = mixed->write_amplification,
                   .reference = 2.5,
                   .unit = "x",
                   .goal = "above",
                   .note = fmt::format("{}; CacheLib without FDP: 3.22", window_text(*mixed))};
  without.met = mixed->settled && without.figure > without.reference;
  without.judged = !options.quick;
  add(rows, options, std::move(without));
  return {};
}

}  // namespace

Status check_store(std::vector<CheckRow>& rows, const CheckOptions& options) {
  for (const int percent : {30, 40, 50}) {
    if (options.quick && percent != 40) continue;
    if (auto checked = check_mixed(rows, options, percent); !checked) return checked;
  }
  const StoreLoad alone{.lifetimes = 1, .region_share = 0, .region_writes = 0};
  const auto apart = run(options, true, alone);
  if (!apart) return fail(apart.error());
  const auto mixed = run(options, false, alone);
  if (!mixed) return fail(mixed.error());
  CheckRow row{.name = "handles.one",
               .what = "a store of one lifetime alone: with handles beside without",
               .figure = apart->write_amplification,
               .reference = mixed->write_amplification,
               .unit = "x",
               .goal = "within 2 %"};
  row.met = std::abs(row.deviation()) <= 0.02;
  add(rows, options, std::move(row));
  return {};
}

}  // namespace artesian::sim
