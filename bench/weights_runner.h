// Runs the arms of `artesian bench weights`: one program a run, in a memory limit of its own (scripts/cgroup.sh, built
// in), the model's page cache forgotten before it, its text compared, arms interleaved.
//
// Threads: one. What starts programs and forgets cached pages is handed in.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "bench/weights_cases.h"
#include "platform/process.h"

namespace artesian::bench {

struct RunnerSettings {
  std::string engine;                                     // path of llama-completion
  std::string artesian;                                   // path of this program, for artesian run
  std::string shell;                                      // path of bash
  std::map<BenchModel, std::vector<std::string>> models;  // files of each; the engine is given the first
  std::map<BenchModel, std::string> names;                // of each, for people
  std::map<Limit, std::uint64_t> limits;                  // bytes
  std::string no_limit_reason;                            // why limits cannot be had; empty: they can
  std::string stats_path;                                 // file for the door's figures, overwritten by every run
  std::uint32_t threads = 0;                              // of the engine; 0: its own choice
  std::uint32_t tokens = 64;                              // to decode
  std::uint32_t repeat = 3;
};

struct RunnerHooks {
  std::function<Result<Captured>(const Command&)> launch;
  std::function<void(const std::string& path)> forget_cached;
  std::function<Result<double>()> bandwidth;  // bytes a second of the device that holds the models
  // A run begins: which of how many, and what.
  std::function<void(std::size_t number, std::size_t total, const std::string& what)> progress;
};

// The command of one arm.
Command command_of(const RunnerSettings& settings, const Arm& arm);

// Why no memory group can be made here; empty if one can.
Result<std::string> limit_reason(const std::string& shell,
                                 const std::function<Result<Captured>(const Command&)>& launch);

// All arms that the cases need, `repeat` times, interleaved. An arm that fails is told with its reason and not run
// again. Fails with `retry` when a signal interrupted a run, and with what `bandwidth` says.
Result<Measurements> measure(const RunnerSettings& settings, const RunnerHooks& hooks,
                             std::span<const WeightsCase* const> cases);

// "artesian run, 900 MB, moe, 256 + 64 tokens"
std::string arm_text(const RunnerSettings& settings, const Arm& arm);

}  // namespace artesian::bench
