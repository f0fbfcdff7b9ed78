#include "bench/weights_cases.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "base/units.h"
#include "bench/statistics.h"

namespace artesian::bench {

namespace {

constexpr std::uint32_t short_prompt = 16, usual_prompt = 256, long_prompt = 512;
constexpr std::uint32_t prefill_tokens = 8;  // generated after a long prompt, to compare texts

using Figure = Result<double>;

// ---- what runs say --------------------------------------------------------------------------------------------------

double decode_seconds(const Run& run) {
  const auto& timings = run.timings;
  return timings.decode_tokens == 0 ? 0 : timings.decode_seconds / static_cast<double>(timings.decode_tokens);
}
double decode_rate(const Run& run) {
  return run.timings.decode_rate();
}
double prompt_rate(const Run& run) {
  return run.timings.prompt_rate();
}

double per_decoded_token(const Run& run, std::uint64_t amount) {
  return run.stats && run.stats->decode.tokens != 0
             ? static_cast<double>(amount) / static_cast<double>(run.stats->decode.tokens)
             : 0;
}
double bytes_missed(const Run& run) {
  if (!run.stats) return 0;
  const auto& decode = run.stats->decode;
  return per_decoded_token(run, decode.bytes_read - std::min(decode.bytes_read, decode.bytes_wasted));
}
double expert_seconds(const Run& run) {
  return run.stats ? per_decoded_token(run, run.stats->decode.compute_ns) * 1e-9 : 0;
}
double stalled_seconds(const Run& run) {
  return run.stats ? per_decoded_token(run, run.stats->decode.stall_ns) * 1e-9 : 0;
}

Result<std::span<const Run>> runs_of(const Measurements& measured, const Arm& arm) {
  const auto found = measured.arms.find(arm);
  if (found == measured.arms.end()) return fail(Code::not_found, "not measured");
  if (!found->second.failure.empty()) return fail(Code::rejected, "{}", found->second.failure);
  if (found->second.runs.empty()) return fail(Code::not_found, "not measured");
  return std::span<const Run>(found->second.runs);
}

// The median over an arm's runs, which must all have it.
Figure median_of(const Measurements& measured, const Arm& arm, double (*value)(const Run&), std::string_view what) {
  const auto runs = runs_of(measured, arm);
  if (!runs) return fail(runs.error());
  std::vector<double> values;
  for (const Run& run : *runs) {
    values.push_back(value(run));
    if (!(values.back() > 0)) return fail(Code::rejected, "a run did not say {}", what);
  }
  return median(std::move(values));
}

GoalFigure figure_of(std::string name, const Figure& figure, std::string note = {}) {
  if (!figure) return {std::move(name), {}, {}, figure.error().message};
  return {std::move(name), *figure, {}, std::move(note)};
}

std::string goal_name(const WeightsCase& info, std::string_view part) {
  return fmt::format("{}.{}", info.name, part);
}

Figure ratio(const Figure& above, const Figure& below) {
  if (!above) return above;
  if (!below) return below;
  return *above / *below;
}

Figure percent(const Figure& above, const Figure& below) {
  const Figure part = ratio(above, below);
  return part ? Figure(*part * 100) : part;
}

// ---- decoding of experts --------------------------------------------------------------------------------------------

struct DecodeArms {
  Arm memory, resident, door, mmap;
};

DecodeArms decode_arms(const WeightsCase& info, std::uint32_t tokens) {
  // mmap takes a second a token: a quarter of them will do.
  return {.memory = {info.model, Way::plain, Limit::none, usual_prompt, tokens},
          .resident = {info.model, Way::door_on, Limit::none, usual_prompt, tokens},
          .door = {info.model, Way::door, info.limit, usual_prompt, tokens},
          .mmap = {info.model, Way::plain, info.limit, usual_prompt, std::max(tokens / 4, 2U)}};
}

struct Bound {
  double other_seconds = 0;  // compute of all but the experts
  double seconds = 0;        // the bound, median
  double ratio = 0;          // time per token over it, median
  std::string note;
};

Result<Bound> bound_of(const DecodeArms& arms, const Measurements& measured) {
  const auto memory = median_of(measured, arms.memory, decode_seconds, "how long a token took");
  const auto experts = median_of(measured, arms.resident, expert_seconds, "how long experts were computed");
  const auto missed = median_of(measured, arms.door, bytes_missed, "how much was read for a token");
  const auto token = median_of(measured, arms.door, decode_seconds, "how long a token took");
  for (const Figure* figure : {&token, &missed, &memory, &experts}) {
    if (!*figure) return fail(figure->error());
  }
  if (measured.bandwidth <= 0) return fail(Code::not_found, "the device's bandwidth was not measured");
  Bound bound;
  bound.other_seconds = std::max(0.0, *memory - *experts);
  std::vector<double> seconds, ratios, stalls;
  for (const Run& run : measured.arms.at(arms.door).runs) {
    seconds.push_back(bound.other_seconds + bytes_missed(run) / measured.bandwidth);
    ratios.push_back(decode_seconds(run) / seconds.back());
    stalls.push_back(stalled_seconds(run));
  }
  bound.seconds = median(std::move(seconds));
  bound.ratio = median(std::move(ratios));
  bound.note = fmt::format(
      "{:.1f} ms a token, {:.1f} of them stalled; {:.1f} MB missed at {} = {:.1f} ms, all but experts {:.1f}",
      *token * 1e3, median(std::move(stalls)) * 1e3, *missed / 1e6, format_rate(measured.bandwidth),
      *missed / measured.bandwidth * 1e3, bound.other_seconds * 1e3);
  return bound;
}

std::vector<Arm> moe_arms(const WeightsCase& info, std::uint32_t tokens) {
  const DecodeArms arms = decode_arms(info, tokens);
  return {arms.memory, arms.resident, arms.door, arms.mmap};
}

std::vector<Arm> flat_arms(const WeightsCase& info, std::uint32_t tokens) {
  const DecodeArms arms = decode_arms(info, tokens);
  return {arms.memory, arms.resident, arms.door};
}

GoalFigure bound_figure(const WeightsCase& info, const Result<Bound>& bound) {
  if (!bound) return {goal_name(info, "bound"), {}, {}, bound.error().message};
  return {goal_name(info, "bound"), bound->ratio, {}, bound->note};
}

std::vector<GoalFigure> flat_figures(const WeightsCase& info, const Measurements& measured, std::uint32_t tokens) {
  return {bound_figure(info, bound_of(decode_arms(info, tokens), measured))};
}

std::vector<GoalFigure> moe_figures(const WeightsCase& info, const Measurements& measured, std::uint32_t tokens) {
  const DecodeArms arms = decode_arms(info, tokens);
  const auto bound = bound_of(arms, measured);
  const auto door = median_of(measured, arms.door, decode_rate, "how fast it decoded");
  const auto mmap = median_of(measured, arms.mmap, decode_rate, "how fast it decoded");
  GoalFigure times = figure_of(goal_name(info, "mmap"), ratio(door, mmap));
  if (times.figure) times.note = fmt::format("{:.2f} tokens/s beside {:.2f}", *door, *mmap);
  if (times.figure && bound) times.limit = 1 / bound->seconds / *mmap;
  return {bound_figure(info, bound), std::move(times)};
}

// ---- prefill --------------------------------------------------------------------------------------------------------

Arm prefill_arm(const WeightsCase& info, Way way, Limit limit) {
  return {info.model, way, limit, long_prompt, prefill_tokens};
}

std::vector<Arm> prefill_arms(const WeightsCase& info, std::uint32_t /*tokens*/) {
  return {prefill_arm(info, Way::plain, Limit::none), prefill_arm(info, Way::door, info.limit)};
}

std::vector<GoalFigure> prefill_figures(const WeightsCase& info, const Measurements& measured,
                                        std::uint32_t /*tokens*/) {
  const auto memory =
      median_of(measured, prefill_arm(info, Way::plain, Limit::none), prompt_rate, "how fast the prompt was");
  const auto door =
      median_of(measured, prefill_arm(info, Way::door, info.limit), prompt_rate, "how fast the prompt was");
  GoalFigure share = figure_of(std::string(info.name), percent(door, memory));
  if (share.figure) share.note = fmt::format("{:.1f} tokens/s beside {:.1f} in memory", *door, *memory);
  return {std::move(share)};
}

// ---- dense ----------------------------------------------------------------------------------------------------------

DecodeArms dense_decode_arms(const WeightsCase& info, std::uint32_t tokens) {
  return decode_arms(info, std::max(tokens / 2, 2U));  // a token reads a good part of the model
}

std::vector<Arm> dense_arms(const WeightsCase& info, std::uint32_t tokens) {
  const DecodeArms arms = dense_decode_arms(info, tokens);
  return {arms.memory, arms.door, arms.mmap};
}

std::vector<GoalFigure> dense_figures(const WeightsCase& info, const Measurements& measured, std::uint32_t tokens) {
  const DecodeArms arms = dense_decode_arms(info, tokens);
  const auto door = median_of(measured, arms.door, decode_rate, "how fast it decoded");
  const auto mmap = median_of(measured, arms.mmap, decode_rate, "how fast it decoded");
  // What is not pinned is read once for every token.
  const auto streamed = median_of(measured, arms.door, bytes_missed, "how much was read for a token");
  Figure most = fail(Code::not_found, "the device's bandwidth was not measured");
  if (measured.bandwidth > 0) most = ratio(Figure(measured.bandwidth), streamed);
  GoalFigure share = figure_of(goal_name(info, "bandwidth"), percent(door, most));
  if (share.figure) {
    share.note = fmt::format("{:.2f} tokens/s; {:.1f} MB a token at {} would be {:.2f}", *door, *streamed / 1e6,
                             format_rate(measured.bandwidth), *most);
  }
  GoalFigure times = figure_of(goal_name(info, "mmap"), ratio(door, mmap));
  if (times.figure) times.note = fmt::format("{:.2f} tokens/s beside {:.2f}", *door, *mmap);
  if (times.figure && most) times.limit = *most / *mmap;
  return {std::move(share), std::move(times)};
}

// ---- everything fits ------------------------------------------------------------------------------------------------

std::vector<Arm> fits_arms(const WeightsCase& info, Way alone, Way door, std::uint32_t tokens) {
  return {{info.model, alone, Limit::none, long_prompt, tokens}, {info.model, door, Limit::none, long_prompt, tokens}};
}
std::vector<Arm> aside_arms(const WeightsCase& info, std::uint32_t tokens) {
  return fits_arms(info, Way::stock, Way::door, tokens);
}
std::vector<Arm> active_arms(const WeightsCase& info, std::uint32_t tokens) {
  return fits_arms(info, Way::plain, Way::door_on, tokens);
}

std::vector<GoalFigure> fits_figures(const WeightsCase& info, const Measurements& measured, std::uint32_t tokens) {
  const std::vector<Arm> arms = info.arms(info, tokens);
  std::vector<GoalFigure> figures;
  for (const auto& [part, value] : {std::pair{"decode", &decode_rate}, {"prefill", &prompt_rate}}) {
    const auto alone = median_of(measured, arms[0], value, "how fast it was");
    const auto door = median_of(measured, arms[1], value, "how fast it was");
    figures.push_back(figure_of(goal_name(info, part), percent(door, alone)));
    if (figures.back().figure) figures.back().note = fmt::format("{:.1f} tokens/s beside {:.1f}", *door, *alone);
  }
  return figures;
}

// ---- first token ----------------------------------------------------------------------------------------------------

Arm first_arm(const WeightsCase& info, Way way, Limit limit) {
  return {info.model, way, limit, short_prompt, 1};
}

std::vector<Arm> first_arms(const WeightsCase& info, std::uint32_t /*tokens*/) {
  return {first_arm(info, Way::plain, Limit::none), first_arm(info, Way::plain, info.limit),
          first_arm(info, Way::door, info.limit)};
}

std::vector<GoalFigure> first_figures(const WeightsCase& info, const Measurements& measured, std::uint32_t /*tokens*/) {
  constexpr auto value = [](const Run& run) { return run.first_token_seconds; };
  const auto plain = median_of(measured, first_arm(info, Way::plain, info.limit), value, "a first token");
  const auto door = median_of(measured, first_arm(info, Way::door, info.limit), value, "a first token");
  GoalFigure times = figure_of(std::string(info.name), ratio(plain, door));
  if (times.figure) times.note = fmt::format("{:.2f} s beside {:.2f} s", *door, *plain);
  return {std::move(times)};
}

using enum BenchModel;

constexpr std::array case_table = {
    WeightsCase{"moe.900.decode", "MoE decode, about half of the experts fit", moe, Limit::large, true, moe_arms,
                moe_figures},
    WeightsCase{"moe.560.decode", "MoE decode, about a quarter of the experts fits", moe, Limit::small, true, moe_arms,
                moe_figures},
    WeightsCase{"moe.900.flat", "the same, flat routing, about half fits", flat, Limit::large, true, flat_arms,
                flat_figures},
    WeightsCase{"moe.560.flat", "the same, flat routing, about a quarter fits", flat, Limit::small, true, flat_arms,
                flat_figures},
    WeightsCase{"moe.900.prefill", "MoE prefill of 512 tokens, about half fits", moe, Limit::large, false, prefill_arms,
                prefill_figures},
    WeightsCase{"moe.560.prefill", "MoE prefill of 512 tokens, about a quarter fits", moe, Limit::small, false,
                prefill_arms, prefill_figures},
    WeightsCase{"dense.decode", "dense decode, two thirds fit", dense, Limit::dense, true, dense_arms, dense_figures},
    WeightsCase{"fits.aside", "all fits and the door steps aside", moe, Limit::none, false, aside_arms, fits_figures},
    WeightsCase{"fits.active", "all fits and the door is used", moe, Limit::none, false, active_arms, fits_figures},
    WeightsCase{"first_token.900", "first token after start, cold, about half fits", moe, Limit::large, false,
                first_arms, first_figures},
    WeightsCase{"first_token.560", "first token after start, cold, about a quarter fits", moe, Limit::small, false,
                first_arms, first_figures},
};

}  // namespace

Arm reference_of(const Arm& arm) {
  Arm reference = arm;
  // A door that steps aside leaves the engine its own kernels.
  const bool stock = arm.way == Way::stock || (arm.opens_door() && !arm.streams());
  reference.way = stock ? Way::stock : Way::plain;
  reference.limit = Limit::none;
  return reference;
}

std::span<const WeightsCase> weights_cases() {
  return case_table;
}

bool is_goal_of(const WeightsCase& info, const Goal& goal) {
  return goal.section == "weights" && is_named(goal.name, info.name);
}

}  // namespace artesian::bench
