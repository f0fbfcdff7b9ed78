// artesian-policy-replay: the eviction policies over recorded routes. Exit code 0, 1 when a goal is missed under
// --check, 2 for wrong use or traces that cannot be read.
#include "bench/policy_replay.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  using namespace artesian;
  using namespace artesian::bench;
  CLI::App app{
      "Replay expert routes through the eviction policies and compare with the offline optimum.\n"
      "Examples:\n"
      "  artesian-policy-replay --traces data/expert-routes\n"
      "  ARTESIAN_TRACES=data artesian-policy-replay --check"};
  ReplaySettings settings;
  std::string folder;
  std::string policy;
  bool json = false;
  bool check = false;
  std::vector<std::string> names;
  for (const EvictionInfo& info : eviction_policies()) names.emplace_back(info.name);
  app.add_option("--traces", folder, "Folder with *.route.csv; without it $ARTESIAN_TRACES, else flat routes only");
  app.add_option("--policy", policy, "Which policy the goals are checked for; the default policy without it")
      ->check(CLI::IsMember(names));
  app.add_flag("--json", json, "Print JSON");
  app.add_flag("--check", check, "Exit with 1 when a goal is missed or not measured");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (folder.empty()) {
    if (const char* set = std::getenv("ARTESIAN_TRACES")) folder = set;
  }
  settings.traces = folder;

  const auto report = replay_policies(settings);
  if (!report) {
    fmt::print(stderr, "artesian-policy-replay: {}\n", report.error().message);
    return 2;
  }
  const auto goals = goals_of("policy");
  const auto table =
      goals ? set_beside(*goals, replay_figures(*report, policy)) : Result<GoalTable>(fail(goals.error()));
  if (!table) {
    fmt::print(stderr, "artesian-policy-replay: {}\n", table.error().message);
    return 2;
  }
  if (json) {
    fmt::print("{{\"replay\": {}, \"check\": {}}}\n", replay_json(*report), table->json());
  } else {
    fmt::print("{}\n{}", replay_text(*report), table->text());
  }
  return check && !table->all_met() ? 1 : 0;
}
