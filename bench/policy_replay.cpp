#include "bench/policy_replay.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "bench/layer_cache.h"

namespace artesian::bench {

namespace {

constexpr std::string_view in_turn = "lru-in-turn";
constexpr std::string_view optimum = "optimum";
constexpr std::string_view flat = "flat";

template <typename Misses>
PolicyFigure figure_of(std::string_view name, const RouteTrace& trace, const Partition& plan, Misses&& misses) {
  double missed = 0;
  double uses = 0;
  double bytes = 0;
  for (std::size_t i = 0; i < trace.layers.size(); ++i) {
    const ExpertLayer& layer = trace.layers[i];
    const double count =
        static_cast<double>(misses(LayerUses{trace.decode[i], layer.used, layer.experts}, plan.slots[i]));
    missed += count;
    uses += static_cast<double>(trace.decode[i].size());
    bytes += count * static_cast<double>(layer.expert_bytes);
  }
  PolicyFigure figure;
  figure.name = name;
  figure.hit_percent = 100.0 * (1.0 - missed / uses);
  figure.bytes_missed_per_token = bytes / static_cast<double>(trace.decode_steps);
  return figure;
}

// How far `here` has come from `start` to `end`; all of it when there is no way to go.
double way(double start, double here, double end) {
  return start <= end ? 100.0 : 100.0 * (start - here) / (start - end);
}

const PolicyFigure& named(const ReplayCase& run, std::string_view name) {
  return *std::ranges::find(run.policies, name, &PolicyFigure::name);
}

Result<std::vector<RouteTrace>> read_folder(std::filesystem::path folder) {
  std::error_code error;
  if (std::filesystem::is_directory(folder / "expert-routes", error)) folder /= "expert-routes";
  std::vector<std::filesystem::path> files;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().string().ends_with(".route.csv")) files.push_back(it->path());
  }
  if (error) return fail(Code::not_found, "{}: {}", folder.string(), error.message());
  if (files.empty()) return fail(Code::not_found, "{}: no *.route.csv in this folder", folder.string());
  std::ranges::sort(files);
  std::vector<RouteTrace> traces;
  for (const auto& file : files) {
    auto trace = read_route_trace(file);
    if (!trace) return fail(trace.error());
    traces.push_back(std::move(*trace));
  }
  return traces;
}

// The worst of all recorded traces at this budget, with each trace's own in the note.
GoalFigure way_figure(const ReplayReport& report, std::string_view policy, double cycles) {
  GoalFigure figure{fmt::format("policy.way.{:g}", cycles), {}, {}, {}};
  for (const ReplayCase& run : report.cases) {
    if (run.trace == flat || std::abs(run.cycles - cycles) > 1e-9) continue;
    const PolicyFigure& ours = named(run, policy);
    figure.figure = std::min(figure.figure.value_or(ours.way_percent), ours.way_percent);
    figure.note += fmt::format("{}{} {:.1f}", figure.note.empty() ? "" : ", ", run.trace, ours.way_percent);
  }
  if (!figure.figure) figure.note = report.traces_missing.empty() ? "not replayed" : report.traces_missing;
  return figure;
}

// Against the better of the two LRUs.
GoalFigure flat_figure(const ReplayReport& report, std::string_view policy) {
  GoalFigure figure{"policy.flat", {}, {}, {}};
  for (const ReplayCase& run : report.cases) {
    if (run.trace != flat) continue;
    const double lru = std::min(named(run, "lru").bytes_missed_per_token, named(run, in_turn).bytes_missed_per_token);
    const double above = 100.0 * (named(run, policy).bytes_missed_per_token / lru - 1.0);
    figure.figure = std::max(figure.figure.value_or(above), above);
  }
  if (!figure.figure) figure.note = "not replayed";
  return figure;
}

}  // namespace

Result<std::vector<ReplayCase>> replay_trace(const RouteTrace& trace, std::span<const double> cycles) {
  std::vector<ReplayCase> cases;
  for (const double wanted : cycles) {
    if (!(wanted >= 0) || wanted > 1e6) return fail(Code::invalid, "a budget of {} token cycles", wanted);
    ReplayCase run;
    run.trace = trace.name;
    run.cycles = wanted;
    run.budget_bytes =
        static_cast<std::uint64_t>(std::llround(wanted * static_cast<double>(token_cycle_bytes(trace.layers))));
    const auto plan = partition_slots(trace.layers, run.budget_bytes);
    if (!plan) return fail(plan.error());
    for (const EvictionInfo& info : eviction_policies()) {
      run.policies.push_back(figure_of(info.name, trace, *plan, [&](const LayerUses& layer, std::size_t slots) {
        return policy_misses(layer, slots, *info.make(layer.experts));
      }));
    }
    run.policies.push_back(figure_of(in_turn, trace, *plan, textbook_lru_misses));
    run.policies.push_back(figure_of(optimum, trace, *plan, optimum_misses));
    const double best = named(run, optimum).bytes_missed_per_token;
    const double lru = named(run, in_turn).bytes_missed_per_token;
    const double lru_step = named(run, "lru").bytes_missed_per_token;
    for (PolicyFigure& figure : run.policies) {
      figure.way_percent = way(lru, figure.bytes_missed_per_token, best);
      figure.way_step_percent = way(lru_step, figure.bytes_missed_per_token, best);
    }
    cases.push_back(std::move(run));
  }
  return cases;
}

Result<ReplayReport> replay_policies(const ReplaySettings& settings) {
  ReplayReport report;
  std::vector<RouteTrace> traces;
  if (settings.traces.empty()) {
    report.traces_missing = "no folder of recorded routes was given";
  } else {
    auto read = read_folder(settings.traces);
    if (!read) return fail(read.error());
    traces = std::move(*read);
  }
  traces.push_back(flat_route_trace(12, 64, 8, settings.flat_steps, settings.seed));
  for (const RouteTrace& trace : traces) {
    auto cases = replay_trace(trace, settings.cycles);
    if (!cases) return fail(cases.error());
    std::ranges::move(*cases, std::back_inserter(report.cases));
  }
  return report;
}

std::string replay_text(const ReplayReport& report) {
  std::string out;
  if (!report.traces_missing.empty()) out += fmt::format("Recorded routes: {}.\n\n", report.traces_missing);
  out +=
      "Way to the optimum: from a per-layer LRU that takes the experts of a step in turn / from the product's lru, "
      "which takes a step as a whole.\n\n";
  out += fmt::format("{:<8}{:>8}{:>12}  {:<12}{:>8}{:>14}{:>20}\n", "trace", "cycles", "budget", "policy", "hit %",
                     "MB per token", "way %");
  for (const ReplayCase& run : report.cases) {
    for (const PolicyFigure& figure : run.policies) {
      const bool first = &figure == run.policies.data();
      out += fmt::format(
          "{:<8}{:>8}{:>12}  {:<12}{:>8.1f}{:>14.2f}{:>20}\n", first ? run.trace : "",
          first ? fmt::format("{:g}", run.cycles) : "", first ? format_bytes(run.budget_bytes) : "", figure.name,
          figure.hit_percent, figure.bytes_missed_per_token / 1e6,
          run.trace == flat ? "" : fmt::format("{:.1f} / {:.1f}", figure.way_percent, figure.way_step_percent));
    }
  }
  return out;
}

std::string replay_json(const ReplayReport& report) {
  nlohmann::json cases = nlohmann::json::array();
  for (const ReplayCase& run : report.cases) {
    nlohmann::json policies = nlohmann::json::array();
    for (const PolicyFigure& figure : run.policies) {
      policies.push_back({{"name", figure.name},
                          {"hit_percent", figure.hit_percent},
                          {"bytes_missed_per_token", figure.bytes_missed_per_token},
                          {"way_percent", figure.way_percent},
                          {"way_step_percent", figure.way_step_percent}});
    }
    cases.push_back({{"trace", run.trace},
                     {"cycles", run.cycles},
                     {"budget_bytes", run.budget_bytes},
                     {"policies", std::move(policies)}});
  }
  return nlohmann::json{{"traces_missing", report.traces_missing}, {"cases", std::move(cases)}}.dump(2);
}

std::vector<GoalFigure> replay_figures(const ReplayReport& report, std::string_view policy) {
  if (policy.empty()) policy = eviction_policies().front().name;
  std::vector<GoalFigure> figures;
  for (const double cycles : {0.5, 0.8, 1.0, 2.0, 3.0, 4.0}) figures.push_back(way_figure(report, policy, cycles));
  figures.push_back(flat_figure(report, policy));
  return figures;
}

}  // namespace artesian::bench
