// artesian replay TRACE: a recorded request trace through the KV policies alone, beside the goals.
#include <cstdio>
#include <memory>

#include "base/units.h"
#include "bench/kv_replay.h"
#include "commands.h"
#include "progress.h"

namespace artesian::cli {
namespace {

struct ReplayOptions {
  std::string trace;
  bench::KvReplaySettings settings;
  std::uint64_t block_bytes = MiB;
  bool policy_only = false, json = false, check = false;
};

Result<int> replay(const ReplayOptions& options) {
  if (!options.policy_only) {
    return fail(Code::invalid,
                "replay: --policy-only must be given: a replay through a store on a disk is not there yet");
  }
  const auto trace = bench::read_kv_trace(options.trace);
  if (!trace) return fail(trace.error());
  auto cases = [&] {
    ProgressLine progress;
    return bench::replay_kv(*trace, options.settings, [&](double part) { progress.show(part, "replaying"); });
  }();
  if (!cases) return fail(cases.error());
  const auto goals = bench::goals_of("kv");
  if (!goals) return fail(goals.error());
  const auto table = bench::set_beside(*goals, bench::kv_replay_figures(*cases));
  if (!table) return fail(table.error());
  if (options.json) {
    fmt::print("{{\"replay\": {}, \"check\": {}}}\n", bench::kv_replay_json(*cases, options.block_bytes),
               table->json());
  } else {
    fmt::print("{} requests, {} blocks, {} of them different\n\n{}\n{}", trace->requests.size(), trace->block_uses,
               trace->distinct, bench::kv_replay_text(*cases, options.block_bytes), table->text());
  }
  return options.check && !table->all_met() ? exit_missed : exit_ok;
}

}  // namespace

Action setup_replay(CLI::App& command, const Context& /*context*/) {
  auto options = std::make_shared<ReplayOptions>();
  command.add_option("trace", options->trace, "Trace of requests: JSON lines with timestamp, input_length, hash_ids")
      ->type_name("TRACE")
      ->required();
  command.add_flag("--policy-only", options->policy_only, "The policies alone, without any I/O");
  command.add_option("--blocks", options->settings.capacities, "Capacities, in blocks of 512 tokens")
      ->type_name("N")
      ->capture_default_str();
  command.add_option("--budget", options->settings.budget_of_lru, "What may be written, as a share of LRU's writes")
      ->type_name("SHARE")
      ->check(CLI::Range(0.001, 10.0))
      ->capture_default_str();
  command.add_option("--segment", options->settings.segment_blocks, "Blocks in a segment")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  add_size(command, "--block-size", options->block_bytes, "Bytes that a block counts as; 1M if not given");
  command.add_flag("--json", options->json, "The replay and the goals as one JSON object");
  command.add_flag("--check", options->check, "Exit with 1 when a goal is missed or was not measured");
  set_examples(command, {"artesian replay conversation_trace.jsonl --policy-only",
                         "artesian replay conversation_trace.jsonl --policy-only --blocks 5000 10000 --check",
                         "artesian replay trace.jsonl --policy-only --blocks 30000 --segment 64 --json"});
  return [options] { return replay(*options); };
}

}  // namespace artesian::cli
