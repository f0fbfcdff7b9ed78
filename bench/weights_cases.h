// The comparison of `artesian bench weights`: which runs each case needs (arms, shared between cases), and how figures
// for the goals come out of what was measured. Pure: measurements in, figures out.
//
// The bound of decoding: time per token <= compute of all but the experts + bytes missed / bandwidth, where
//   compute of all but the experts = time per token of the engine alone with the model in memory (--no-repack), less
//     the time that the door, everything resident, spends in the engine's kernels on a token's expert nodes;
//   bytes missed = bytes that the door read for a token, less those that it read ahead for nothing;
//   bandwidth = the best of the device sweep.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/engine_output.h"
#include "bench/goals.h"
#include "stream/stats_file.h"

namespace artesian::bench {

enum class BenchModel : std::uint8_t { moe, flat, dense };
enum class Way : std::uint8_t {
  plain,    // the engine alone, --no-repack
  stock,    // the engine alone, its own defaults
  door,     // artesian run
  door_on,  // artesian run --mode on
};
enum class Limit : std::uint8_t { none, large, small, dense };

// One way to run one model. Two cases that need the same arm share its runs.
struct Arm {
  BenchModel model = BenchModel::moe;
  Way way = Way::plain;
  Limit limit = Limit::none;
  std::uint32_t prompt = 0;  // tokens, of the benchmark's tokenizer
  std::uint32_t tokens = 0;  // to generate
  auto operator<=>(const Arm&) const = default;

  bool opens_door() const { return way == Way::door || way == Way::door_on; }
  // With no limit the model fits: only --mode on keeps the door from stepping aside.
  bool streams() const { return way == Way::door_on || (way == Way::door && limit != Limit::none); }
};

// The run whose text an arm must repeat byte by byte: the engine alone, in memory, with the same kernels.
Arm reference_of(const Arm& arm);

struct Run {
  EngineTimings timings;
  double first_token_seconds = 0;  // from the start of the program; 0: it printed nothing
  std::string text;
  std::optional<StatsSnapshot> stats;  // of the door
};

struct ArmRuns {
  std::vector<Run> runs;
  std::string failure;        // why there are no more; empty: all went well
  bool text_differs = false;  // and this was it
};

struct Measurements {
  std::map<Arm, ArmRuns> arms;
  double bandwidth = 0;  // bytes a second; 0: not measured
};

struct WeightsCase {
  std::string_view name;  // its goals have this name, or begin with it and a dot
  std::string_view what;
  BenchModel model = BenchModel::moe;
  Limit limit = Limit::none;
  bool bandwidth = false;  // whether its figures need the device's
  std::vector<Arm> (*arms)(const WeightsCase& info, std::uint32_t tokens) = nullptr;
  std::vector<GoalFigure> (*figures)(const WeightsCase& info, const Measurements& measured,
                                     std::uint32_t tokens) = nullptr;
};

std::span<const WeightsCase> weights_cases();

bool is_goal_of(const WeightsCase& info, const Goal& goal);

}  // namespace artesian::bench
