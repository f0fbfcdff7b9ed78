// artesian bench weights: models larger than memory, through the door and without it, beside the goals.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "base/units.h"
#include "bench/device_measure.h"
#include "bench/policy_replay.h"
#include "bench/weights_report.h"
#include "bench_models.h"
#include "commands.h"
#include "door_files.h"
#include "engine_check.h"
#include "platform/clock.h"
#include "platform/file.h"
#include "platform/process.h"
#include "platform/shared_mapping.h"
#include "platform/terminal.h"
#include "progress.h"

namespace artesian::cli {
namespace {

using bench::Limit;
using bench::WeightsCase;

constexpr std::string_view policy_case = "policy";
constexpr const char* engine_program = "llama-completion";
// Of the models that are made: about half and a quarter of the experts fit, two thirds of the dense model. A model that
// is given gets the same shares of its bytes.
constexpr std::uint64_t large_limit = 900'000'000, small_limit = 560'000'000, dense_limit = 1'000'000'000;
constexpr double large_share = 0.627, small_share = 0.390, dense_share = 0.662;
constexpr double sweep_seconds = 4;

struct WeightsOptions {
  std::string model, engine, tokenizer, traces;
  std::vector<std::string> cases;
  std::vector<std::uint64_t> limits;
  std::uint32_t repeat = 3, tokens = 64, threads = 0;
  double minutes_max = 10;
  bool list = false, json = false, markdown = false, check = false;
};

struct Selection {
  std::vector<const WeightsCase*> cases;
  bool policy = false;
};

Result<Selection> select_cases(const WeightsOptions& options, const BenchModels& models) {
  for (const std::string& wanted : options.cases) {
    const auto named = [&](const WeightsCase& info) { return bench::is_named(info.name, wanted); };
    if (wanted != policy_case && std::ranges::none_of(bench::weights_cases(), named)) {
      return fail(Code::invalid, "--case {}: there is no such case; --list shows them", wanted);
    }
  }
  const auto wants = [&](std::string_view name) {
    return std::ranges::any_of(options.cases, [&](const auto& wanted) { return bench::is_named(name, wanted); });
  };
  Selection selection;
  for (const WeightsCase& info : bench::weights_cases()) {
    if ((options.cases.empty() || wants(info.name)) && models.suits(info)) selection.cases.push_back(&info);
  }
  // Recorded routes are not everywhere: without them this case belongs to the comparison only if it is asked for.
  selection.policy = options.cases.empty() ? !options.traces.empty() && models.given.empty() : wants(policy_case);
  if (selection.cases.empty() && !selection.policy) {
    return fail(Code::invalid, "--case {}: not possible with the model that is given", options.cases.front());
  }
  return selection;
}

int list_cases() {
  for (const WeightsCase& info : bench::weights_cases()) fmt::print("{:<18}{}\n", info.name, info.what);
  fmt::print("{:<18}{}\n", policy_case, "eviction policies replayed over recorded routes");
  return exit_ok;
}

std::map<Limit, std::uint64_t> limits_of(const WeightsOptions& options, std::uint64_t given_bytes) {
  const auto bytes = [&](std::uint64_t generated, double share) {
    return given_bytes == 0 ? generated : static_cast<std::uint64_t>(share * static_cast<double>(given_bytes));
  };
  std::map<Limit, std::uint64_t> limits = {{Limit::large, bytes(large_limit, large_share)},
                                           {Limit::small, bytes(small_limit, small_share)},
                                           {Limit::dense, bytes(dense_limit, dense_share)}};
  if (!options.limits.empty()) limits[Limit::large] = limits[Limit::dense] = options.limits[0];
  if (options.limits.size() > 1) limits[Limit::small] = options.limits[1];
  return limits;
}

void forget_cached(const std::string& path) {
  if (const auto file = File::open(path, {})) file->forget_cached(0, 0);
}

// What goes on while programs run: the line that shows it, and the signal that ends it.
class Watch {
 public:
  void say(double part, std::string what) {
    part_ = part;
    what_ = std::move(what);
    began_ = clock_.now();
    if (!is_terminal(stderr)) fmt::print(stderr, "{}\n", what_);
    show();
  }

  Result<Captured> launch(const Command& command, double minutes_max) {
    if (signal_ != 0) return fail(Code::retry, "interrupted");
    const auto time_max = std::chrono::duration_cast<Nanos>(std::chrono::duration<double, std::ratio<60>>(minutes_max));
    auto captured = run_captured(command, clock_, {.time_max = time_max, .tick = [this] { show(); }});
    if (captured && captured->interrupted != 0) signal_ = captured->interrupted;
    return captured;
  }

  const Clock& clock() const { return clock_; }
  int signal() const { return signal_; }

 private:
  void show() {
    const auto seconds = [this](Nanos since) { return std::chrono::duration<double>(clock_.now() - since).count(); };
    line_.show(part_, fmt::format("{}, {:.0f} s of {:.0f} s in all", what_, seconds(began_), seconds(start_)));
  }

  SteadyClock clock_;
  ProgressLine line_;
  Nanos start_ = clock_.now(), began_ = start_;
  double part_ = 0;
  std::string what_;
  int signal_ = 0;
};

bench::RunnerHooks hooks_of(Watch& watch, const WeightsOptions& options, const std::string& model) {
  bench::RunnerHooks hooks;
  hooks.launch = [&watch, &options](const Command& command) { return watch.launch(command, options.minutes_max); };
  hooks.forget_cached = forget_cached;
  // What the sweep of `bench device` has at its best lies among these.
  hooks.bandwidth = [&watch, model]() -> Result<double> {
    const auto report = bench::measure_device({.path = model,
                                               .seconds = sweep_seconds,
                                               .request_bytes = {256 * KiB, 512 * KiB, 1 * MiB, 4 * MiB},
                                               .depths = {16, 32, 64}},
                                              watch.clock());
    if (!report) return fail(report.error());
    return best_read_bandwidth(report->points);
  };
  hooks.progress = [&watch](std::size_t number, std::size_t total, const std::string& what) {
    const double part = static_cast<double>(number > 0 ? number - 1 : 0) / static_cast<double>(total);
    watch.say(part, fmt::format("{} of {}: {}", number, total, what));
  };
  return hooks;
}

Result<bench::RunnerSettings> settings_of(const Context& context, const WeightsOptions& options,
                                          const BenchModels& models) {
  bench::RunnerSettings settings;
  const auto engine = find_engine(context, options.engine, engine_program);
  if (!engine) return fail(engine.error());
  settings.engine = *engine;
  if (const GgmlUse ggml = find_ggml(*engine, context.library_path); ggml.linkage == GgmlLinkage::statically) {
    return fail(Code::invalid, "{} has ggml linked in, so the door cannot be opened in {}", ggml.file, *engine);
  }
  const auto self = own_executable();
  const auto shell = find_program("bash", context.search_path);
  auto stats = stats_path(context, own_pid());
  if (!self) return fail(self.error());
  if (!shell) return fail(shell.error());
  if (!stats) return fail(stats.error());
  settings.artesian = *self;
  settings.shell = *shell;
  settings.stats_path = std::move(*stats);
  settings.models = models.files;
  settings.names = models.names;
  settings.limits = limits_of(options, models.given_bytes);
  settings.threads = options.threads;
  settings.tokens = options.tokens;
  settings.repeat = options.repeat;
  return settings;
}

// Measures the cases; nothing where a signal ended it.
Result<std::optional<bench::WeightsReport>> measure_cases(const Context& context, const WeightsOptions& options,
                                                          const Selection& selection, BenchModels models,
                                                          Watch& watch) {
  std::set<bench::BenchModel> wanted;
  for (const WeightsCase* info : selection.cases) wanted.insert(info->model);
  const auto report_making = [&watch](const std::string& what) { watch.say(0, what); };
  if (auto made = make_bench_models(models, wanted, options.tokenizer, context, report_making); !made) {
    return fail(made.error());
  }
  auto settings = settings_of(context, options, models);
  if (!settings) return fail(settings.error());
  const std::string model = models.files.at(*wanted.begin()).front();
  const bench::RunnerHooks hooks = hooks_of(watch, options, model);
  auto reason = bench::limit_reason(settings->shell, hooks.launch);
  if (!reason) return fail(reason.error());
  settings->no_limit_reason = std::move(*reason);
  auto measured = bench::measure(*settings, hooks, selection.cases);
  if (auto gone = remove_file(settings->stats_path); !gone) return fail(gone.error());
  if (watch.signal() != 0) return std::nullopt;
  if (!measured) return fail(measured.error());
  auto goals = bench::weights_goals(selection.cases, *measured, settings->tokens);
  if (!goals) return fail(goals.error());
  return bench::WeightsReport{
      .machine = fmt::format("{}; {}; {}", to_text(machine_facts()), to_text(storage_of(model)), settings->engine),
      .settings = std::move(*settings),
      .measured = std::move(*measured),
      .goals = std::move(*goals)};
}

Status add_policy(const WeightsOptions& options, bench::GoalTable& goals) {
  const auto replayed = bench::replay_policies({.traces = options.traces});
  if (!replayed) return fail(replayed.error());
  const auto wanted = bench::goals_of("policy");
  if (!wanted) return fail(wanted.error());
  auto table = bench::set_beside(*wanted, bench::replay_figures(*replayed));
  if (!table) return fail(table.error());
  std::ranges::move(table->rows, std::back_inserter(goals.rows));
  return {};
}

Result<int> bench_weights(const Context& context, const WeightsOptions& options) {
  if (options.list) return list_cases();
  const auto models = find_bench_models(options.model);
  if (!models) return fail(models.error());
  const auto selection = select_cases(options, *models);
  if (!selection) return fail(selection.error());
  bench::WeightsReport report;
  if (!selection->cases.empty()) {
    Watch watch;
    auto measured = measure_cases(context, options, *selection, *models, watch);
    if (!measured) return fail(measured.error());
    if (!*measured) return 128 + watch.signal();
    report = std::move(**measured);
  }
  if (selection->policy) {
    if (auto added = add_policy(options, report.goals); !added) return fail(added.error());
  }
  const std::string text = options.json       ? bench::weights_json(report)
                           : options.markdown ? bench::weights_markdown(report)
                                              : bench::weights_text(report);
  std::fputs(text.c_str(), stdout);
  const bool differs =
      std::ranges::any_of(report.measured.arms, [](const auto& row) { return row.second.text_differs; });
  return differs || (options.check && !report.goals.all_met()) ? exit_missed : exit_ok;
}

void add_outputs(CLI::App& command, WeightsOptions& options) {
  command.add_flag("--list", options.list, "Only name the cases");
  auto* json = command.add_flag("--json", options.json, "One JSON object");
  command.add_flag("--markdown", options.markdown, "Tables for a page")->excludes(json);
  command.add_flag("--check", options.check, "Exit with 1 when a goal is missed or its case was skipped");
}

}  // namespace

Action setup_bench_weights(CLI::App& command, const Context& context) {
  auto options = std::make_shared<WeightsOptions>();
  options->traces = context.traces;
  command
      .add_option("--model", options->model, "A GGUF model (its first file); else generated ones, made once and kept")
      ->type_name("FILE");
  command
      .add_option("--case", options->cases,
                  "Only this case or group (moe, moe.900, fits), again for more; --list names them")
      ->type_name("NAME")
      ->allow_extra_args(false);
  add_sizes(
      command, "--limit", options->limits,
      "Memory for a program; given again, of the cases with less. Else 900, 560 (dense: 1000) MB or these shares");
  command.add_option("--repeat", options->repeat, "Runs of each kind, interleaved; their median counts")
      ->check(CLI::Range(1U, 1000U))
      ->capture_default_str();
  command.add_option("--tokens", options->tokens, "To decode; a half with a dense model, a quarter of them with mmap")
      ->check(CLI::Range(4U, 512U))
      ->capture_default_str();
  command.add_option("--threads", options->threads, "Of the engine; its own choice if not given")
      ->check(CLI::Range(1U, 1024U));
  command.add_option("--minutes", options->minutes_max, "That one run may take")
      ->check(CLI::Range(0.01, 1440.0))
      ->capture_default_str();
  command
      .add_option(
          "--engine", options->engine,
          "llama.cpp's llama-completion, or its folder; else that of ARTESIAN_ENGINE_BIN, the PATH or the cache")
      ->type_name("PATH");
  command
      .add_option("--tokenizer", options->tokenizer,
                  "GGUF whose tokenizer generated models get; else SmolLM2's in the cache")
      ->type_name("FILE");
  command
      .add_option("--traces", options->traces,
                  "Folder of recorded routes for the case policy; else that of ARTESIAN_TRACES")
      ->type_name("DIR");
  add_outputs(command, *options);
  set_examples(command, {"artesian bench weights --check", "artesian bench weights --case moe.900 --repeat 5",
                         "artesian bench weights --model Qwen3-30B-A3B-Q8_0.gguf --limit 16G --limit 8G --markdown"});
  return [&context, options] { return bench_weights(context, *options); };
}

}  // namespace artesian::cli
