// artesian bench gateway: contexts that come back through the gateway, beside the server alone and hearth.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/units.h"
#include "bench/gateway_measure.h"
#include "bench/scratch_folder.h"
#include "bench_models.h"
#include "commands.h"
#include "engine_check.h"
#include "goals_output.h"
#include "platform/clock.h"
#include "platform/process.h"
#include "platform/terminal.h"
#include "progress.h"

namespace artesian::cli {
namespace {

namespace fs = std::filesystem;

struct GatewayOptions {
  std::string engine, hearth, folder, memory = "/dev/shm";
  std::vector<std::string> cases;
  std::uint32_t rounds = 3, threads = 0;
  bool no_hearth = false, list = false, json = false, markdown = false, check = false;
};

int list_cases() {
  for (const auto& info : bench::gateway_cases()) fmt::print("{:<18}{}\n", info.name, info.what);
  return exit_ok;
}

Result<std::set<std::string>> select_cases(const GatewayOptions& options) {
  std::set<std::string> selected;
  for (const auto& info : bench::gateway_cases()) {
    if (options.cases.empty()) selected.emplace(info.name);
  }
  for (const std::string& wanted : options.cases) {
    const std::size_t before = selected.size();
    for (const auto& info : bench::gateway_cases()) {
      if (bench::is_named(info.name, wanted)) selected.emplace(info.name);
    }
    if (selected.size() == before)
      return fail(Code::invalid, "--case {}: there is no such case; --list shows them", wanted);
  }
  return selected;
}

bool has_case_of(const std::set<std::string>& cases, std::string_view model) {
  return std::ranges::any_of(cases, [&](const std::string& name) { return bench::is_named(name, model); });
}

// Those whose cases are wanted.
Result<std::vector<bench::GatewayModel>> models_of(const Context& context, const std::set<std::string>& cases) {
  std::vector<bench::GatewayModel> models;
  if (has_case_of(cases, "smollm")) {
    const auto file = find_real_model(context);
    if (!file) return fail(file.error());
    models.push_back({.name = "smollm", .file = *file, .prompt_words = 7740, .shared_words = 4000, .context = 8192});
  }
  if (has_case_of(cases, "dense")) {
    auto generated = find_bench_models("");
    if (!generated) return fail(generated.error());
    const auto report = [](const std::string& what) { fmt::print(stderr, "{}\n", what); };
    const auto made = make_bench_models(*generated, {bench::BenchModel::dense}, "", context, report);
    if (!made) return fail(made.error());
    models.push_back({.name = "dense",
                      .file = generated->files.at(bench::BenchModel::dense).front(),
                      .prompt_words = 1940,
                      .shared_words = 1000,
                      .context = 3072});
  }
  return models;
}

// The one that is named, else the one that scripts/setup.sh keeps.
std::string find_hearth(const Context& context, const GatewayOptions& options) {
  if (options.no_hearth) return {};
  const std::string path = options.hearth.empty() ? context.cache_dir + "/artesian/hearth/bin/hearth" : options.hearth;
  const auto found = find_program(path, context.search_path);
  return found ? *found : std::string();
}

Result<bench::GatewayPrograms> programs_of(const Context& context, const GatewayOptions& options) {
  bench::GatewayPrograms programs;
  const auto engine = find_engine(context, options.engine, "llama-server");
  const auto self = own_executable();
  const auto shell = find_program("bash", context.search_path);
  if (!engine) return fail(engine.error());
  if (!self) return fail(self.error());
  if (!shell) return fail(shell.error());
  programs.server = *engine;
  programs.artesian = *self;
  programs.shell = *shell;
  programs.hearth = find_hearth(context, options);
  if (!options.hearth.empty() && programs.hearth.empty()) {
    return fail(Code::not_found, "--hearth {}: there is no such program", options.hearth);
  }
  return programs;
}

Result<bench::ScratchFolder> make_scratch(const std::string& parent) {
  std::error_code error;
  fs::create_directories(parent, error);
  if (error) return fail(Code::rejected, "{}: cannot be made: {}", parent, error.message());
  return bench::ScratchFolder::make(parent);
}

Result<bench::GatewayReport> measure(const bench::GatewayBenchOptions& wanted) {
  bench::GatewayBenchOptions options = wanted;
  const SteadyClock clock;
  ProgressLine line;
  const Nanos begin = clock.now();
  options.progress = [&](double part, std::string_view what) {
    const double seconds = std::chrono::duration<double>(clock.now() - begin).count();
    if (!is_terminal(stderr)) fmt::print(stderr, "{:.0f} s: {}\n", seconds, what);
    line.show(part, fmt::format("{}, {:.0f} s", what, seconds));
  };
  return bench::measure_gateway(options, clock);
}

Result<int> bench_gateway(const Context& context, const GatewayOptions& options) {
  if (options.list) return list_cases();
  const auto cases = select_cases(options);
  if (!cases) return fail(cases.error());
  auto programs = programs_of(context, options);
  if (!programs) return fail(std::move(programs.error()));
  auto models = models_of(context, *cases);
  if (!models) return fail(std::move(models.error()));
  auto folder = make_scratch(options.folder.empty() ? context.cache_dir + "/artesian" : options.folder);
  if (!folder) return fail(std::move(folder.error()));
  auto memory = make_scratch(options.memory);
  if (!memory) return fail(std::move(memory.error()));
  auto report = measure({.programs = *programs,
                         .folder = folder->path(),
                         .memory = memory->path(),
                         .models = std::move(*models),
                         .cases = *cases,
                         .rounds = options.rounds,
                         .threads = options.threads,
                         .progress = {}});
  if (!report) return fail(std::move(report.error()));
  if (programs->hearth.empty()) {
    report->hearth =
        options.no_hearth ? "hearth was left out" : "hearth is not there: docs/measuring.md says how it is installed";
  }
  const auto wanted = [&](const bench::Goal& goal) {
    return std::ranges::any_of(*cases, [&](const auto& name) { return bench::is_named(goal.name, "gateway." + name); });
  };
  return print_beside_goals({.section = "gateway",
                             .measured_name = "measured",
                             .goals_name = "goals",
                             .json = options.json,
                             .check = options.check,
                             .wanted = wanted},
                            bench::gateway_figures(*report),
                            options.markdown ? bench::gateway_markdown(*report) : bench::gateway_text(*report),
                            bench::gateway_json(*report));
}

}  // namespace

Action setup_bench_gateway(CLI::App& command, const Context& context) {
  auto options = std::make_shared<GatewayOptions>();
  command.add_option("--case", options->cases, "Only this case or those of a model (smollm, dense), again for more")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command.add_option("--rounds", options->rounds, "Restarts of each kind, in turns; their median counts")
      ->check(CLI::Range(1U, 100U))
      ->capture_default_str();
  command.add_option("--threads", options->threads, "Of the server; its own choice if not given")
      ->check(CLI::Range(1U, 1024U));
  command
      .add_option("--engine", options->engine,
                  "llama-server, or its folder; else that of ARTESIAN_ENGINE_BIN, the PATH or the cache")
      ->type_name("PATH");
  auto* hearth =
      command.add_option("--hearth", options->hearth, "The program of hearth-llm; else the one in the cache")
          ->type_name("PATH");
  command.add_flag("--no-hearth", options->no_hearth, "Without it")->excludes(hearth);
  command.add_option("--folder", options->folder, "On the drive to measure, 6 GB for a while; else the cache folder")
      ->type_name("DIR");
  command.add_option("--memory-folder", options->memory, "In memory, for slot files on their way")
      ->type_name("DIR")
      ->capture_default_str();
  command.add_flag("--list", options->list, "Only name the cases");
  auto* json = command.add_flag("--json", options->json, "One JSON object");
  command.add_flag("--markdown", options->markdown, "A table for a page")->excludes(json);
  command.add_flag("--check", options->check, "Exit with 1 when a goal is missed");
  set_examples(command, {"artesian bench gateway --check", "artesian bench gateway --case smollm.restart --rounds 5",
                         "artesian bench gateway --case dense --no-hearth --json"});
  return [&context, options] { return bench_gateway(context, *options); };
}

}  // namespace artesian::cli
