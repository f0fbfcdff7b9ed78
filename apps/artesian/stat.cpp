// artesian stat: what the doors that are open now do, once or again and again.
#include <cstdio>
#include <memory>

#include "commands.h"
#include "door_files.h"
#include "platform/process.h"
#include "stat_table.h"

namespace artesian::cli {
namespace {

struct StatOptions {
  int pid = 0;
  bool watch = false, json = false;
};

struct Shown {
  int run_pid;
  Result<StatsSnapshot> stats;
};

Result<std::vector<Shown>> collect(const Context& context, int pid) {
  const auto doors = running_doors(context);
  if (!doors) return fail(doors.error());
  std::vector<Shown> shown;
  for (const auto& door : *doors) {
    auto all = read_stats_file(door.path);
    if (!all) {
      if (pid == 0 || door.run_pid == pid) shown.push_back({door.run_pid, fail(std::move(all.error()))});
      continue;
    }
    for (StatsSnapshot& stats : *all) {
      if (pid == 0 || door.run_pid == pid || stats.pid == pid) shown.push_back({door.run_pid, std::move(stats)});
    }
  }
  return shown;
}

std::string render(const std::vector<Shown>& shown, bool json) {
  std::string text;
  for (const auto& one : shown) {
    if (json) {
      text += (text.empty() ? "" : ",\n") + stat_json(one.run_pid, one.stats);
    } else {
      text += (text.empty() ? "" : "\n") + stat_table(one.run_pid, one.stats);
    }
  }
  return json ? "[" + text + "]\n" : text;
}

Result<int> stat(const Context& context, const StatOptions& options) {
  while (true) {
    const auto shown = collect(context, options.pid);
    if (!shown) return fail(shown.error());
    if (shown->empty() && !options.json) {
      if (options.pid != 0) {
        std::fprintf(stderr, "artesian: stat: no open door belongs to process %d\n", options.pid);
      } else {
        std::fprintf(stderr, "artesian: stat: no door is open; start one with artesian run\n");
      }
      return exit_missed;
    }
    if (options.watch && !options.json) std::fputs("\033[H\033[2J", stdout);
    std::fputs(render(*shown, options.json).c_str(), stdout);
    std::fflush(stdout);
    if (!options.watch) return shown->empty() ? exit_missed : exit_ok;
    pause_for_seconds(1);
  }
}

}  // namespace

Action setup_stat(CLI::App& command, const Context& context) {
  auto options = std::make_shared<StatOptions>();
  command.add_option("--pid", options->pid, "Only this process: the program's number, or that of its artesian run")
      ->check(CLI::PositiveNumber);
  command.add_flag("--watch", options->watch, "Show again every second until interrupted");
  command.add_flag("--json", options->json, "A JSON array, one object for each open door");
  set_examples(command, {"artesian stat", "artesian stat --watch", "artesian stat --pid 4711 --json"});
  return [&context, options] { return stat(context, *options); };
}

}  // namespace artesian::cli
