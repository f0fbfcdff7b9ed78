// A workload in a small file, run on a profile, and what came of it.
//
// The file is in sections, as fio's job files are (`rw`, `bs`, `iodepth` and so on mean the same); [drive] says how the
// drive is found, [model], [kv] and [experts] what a model server does, each other section is a flow. See README.md for
// the keys, and parse_workload() for what they can be.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "nand/flows.h"
#include "nand/profile.h"
#include "nand/serving.h"

namespace artesian::nand {

struct Workload {
  std::string name;
  std::uint64_t capacity_bytes = 0;  // of the drive that is simulated; 0: as much as is comfortable
  double fill = 1;                   // share of the drive written in order before
  double compress = 1;               // what was written before shrinks to so much less
  double overwrite = 0;              // how many times the drive is overwritten at random before
  double wear = 0;                   // share of its life used before
  double age_months = 0;             // since all that was written
  double seconds = 1;                // of virtual time
  std::uint64_t seed = 1;
  // Flows with places and lengths as shares of the drive (0 to 1) where `shares` says so.
  struct Entry {
    Flow flow;
    double first_share = -1, length_share = -1;  // negative: in bytes
    std::uint64_t hops = 0, burst_bytes = 0;     // of a lookup; of a checkpoint
    std::uint32_t beam = 0;                      // reads of a hop
    std::size_t line = 0;
  };
  std::vector<Entry> flows;
  Serving serving;
};

// Code::invalid with file and line.
Result<Workload> parse_workload(std::string_view text, std::string_view where);

// The section [model] of such a text, which may have no other. Code::invalid with file and line.
Status parse_model(std::string_view text, std::string_view where, Serving& serving);

// One step of the run's time, for curves.
struct Sample {
  double at_seconds = 0;
  double read_p50_us = 0, read_p99_us = 0, write_p99_us = 0;
  double read_mb = 0, write_mb = 0;
  double write_amplification = 0;  // of this step
  double watts = 0;
};

struct RunReport {
  Profile profile;                // as simulated
  std::uint64_t whole_bytes = 0;  // of the drive that it is a part of
  Workload workload;
  std::vector<FlowResult> flows;
  std::vector<Sample> samples;
  DriveCounters counters;
  FdpStatistics fdp;
  EnergyReport energy;
  std::vector<double> die_busy, channel_busy;  // shares of the time
  std::vector<double> wear;                    // of each superblock
  double wear_mean = 0, wear_max = 0;
  double years = 0;  // at this rate of writing
  bool worn_out = false;
  std::uint64_t digest = 0;
  std::optional<TokenReport> tokens;  // of a workload that serves a model

  TokenCost cost() const;

  std::string text() const;
  std::string json() const;
};

// The part of a drive that a workload is simulated on. Code::invalid when it asks for more than the drive holds.
Result<Profile> simulated_part(const Profile& profile, const Workload& workload);

// The drive as the workload finds it.
void prepare_drive(Drive& drive, const Workload& workload);

// Fills in a report while a workload runs.
class Recorder {
 public:
  Recorder(RunReport& report, const Drive& drive) : report_(report), drive_(drive) {}
  // What came since the last step, by flow; always the same flows.
  void step(const std::vector<FlowResult>& results);
  void finish();

 private:
  RunReport& report_;
  const Drive& drive_;
  DriveCounters before_;
  double joules_ = 0;
};

// Flows alone; what serves a model is run by sim/. Code::invalid when the workload asks for more than the drive holds.
// `progress` is told the share that is done.
Result<RunReport> run_workload(const Profile& profile, const Workload& workload,
                               const std::function<void(double)>& progress = {});

// Reports side by side.
std::string comparison(std::span<const RunReport> reports);

// One self-contained page with plots.
std::string html_report(std::span<const RunReport> reports);

}  // namespace artesian::nand
