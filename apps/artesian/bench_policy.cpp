// artesian bench policy: the eviction policies replayed over recorded and flat expert routes, without any I/O, beside
// the goals.
#include <cstdio>
#include <memory>

#include "bench/policy_replay.h"
#include "commands.h"
#include "goals_output.h"
#include "policy/eviction.h"

namespace artesian::cli {
namespace {

struct PolicyOptions {
  std::string traces, policy;
  bool json = false, check = false;
};

Result<int> bench_policy(const PolicyOptions& options) {
  const auto report = bench::replay_policies({.traces = options.traces});
  if (!report) return fail(report.error());
  return print_beside_goals({.section = "policy",
                             .measured_name = "replay",
                             .goals_name = "check",
                             .json = options.json,
                             .check = options.check},
                            bench::replay_figures(*report, options.policy), bench::replay_text(*report),
                            bench::replay_json(*report));
}

}  // namespace

Action setup_bench_policy(CLI::App& command, const Context& context) {
  auto options = std::make_shared<PolicyOptions>();
  options->traces = context.traces;
  std::vector<std::string> names;
  for (const EvictionInfo& info : eviction_policies()) names.emplace_back(info.name);
  command
      .add_option("--traces", options->traces,
                  "Folder with recorded routes (*.route.csv); else that of ARTESIAN_TRACES, else flat routes alone")
      ->type_name("DIR");
  command
      .add_option("--policy", options->policy, "Whose figures are set beside the goals; " + names.front() + " if none")
      ->type_name("NAME")
      ->check(CLI::IsMember(names));
  command.add_flag("--json", options->json, "The replay and the goals as one JSON object");
  command.add_flag("--check", options->check, "Exit with 1 when a goal is missed or was not measured");
  set_examples(command, {"artesian bench policy --traces data/expert-routes",
                         "ARTESIAN_TRACES=data artesian bench policy --check", "artesian bench policy --json"});
  return [options] { return bench_policy(*options); };
}

}  // namespace artesian::cli
