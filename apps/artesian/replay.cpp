// artesian replay TRACE: a recorded request trace through a real store, or through the KV policies alone, beside the
// goals.
#include <cstdio>
#include <memory>

#include "base/units.h"
#include "bench/kv_store_replay.h"
#include "commands.h"
#include "goals_output.h"
#include "progress.h"

namespace artesian::cli {
namespace {

struct ReplayOptions {
  std::string trace;
  bench::KvStoreReplaySettings settings;
  std::uint64_t block_bytes = 0;  // 0: not given
  bool policy_only = false, json = false, check = false;
};

Result<int> replay(const ReplayOptions& options) {
  const auto trace = bench::read_kv_trace(options.trace);
  if (!trace) return fail(trace.error());
  bench::KvStoreReplaySettings settings = options.settings;
  if (options.block_bytes != 0) settings.block_bytes = options.block_bytes;
  const std::uint64_t block_bytes = options.policy_only && options.block_bytes == 0 ? MiB : settings.block_bytes;
  auto cases = [&] {
    ProgressLine progress;
    const auto show = [&](double part) { progress.show(part, "replaying"); };
    return options.policy_only ? bench::replay_kv(*trace, settings.replay, show)
                               : bench::replay_kv_store(*trace, settings, show);
  }();
  if (!cases) return fail(cases.error());
  const std::string text = fmt::format("{} requests, {} blocks, {} of them different\n\n{}", trace->requests.size(),
                                       trace->block_uses, trace->distinct, bench::kv_replay_text(*cases, block_bytes));
  return print_beside_goals(
      {.section = "kv", .measured_name = "replay", .goals_name = "check", .json = options.json, .check = options.check},
      bench::kv_replay_figures(*cases), text, bench::kv_replay_json(*cases, block_bytes));
}

}  // namespace

Action setup_replay(CLI::App& command, const Context& /*context*/) {
  auto options = std::make_shared<ReplayOptions>();
  command.add_option("trace", options->trace, "Trace of requests: JSON lines with timestamp, input_length, hash_ids")
      ->type_name("TRACE")
      ->required();
  command.add_flag("--policy-only", options->policy_only, "The policies alone, without any I/O");
  command.add_option("--blocks", options->settings.replay.capacities, "Capacities, in blocks of 512 tokens")
      ->type_name("N")
      ->capture_default_str();
  command
      .add_option("--budget", options->settings.replay.budget_of_lru, "What may be written, as a share of LRU's writes")
      ->type_name("SHARE")
      ->check(CLI::Range(0.001, 10.0))
      ->capture_default_str();
  command.add_option("--segment", options->settings.replay.segment_blocks, "Blocks in a segment")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  add_size(command, "--block-size", options->block_bytes,
           "Bytes of a block that stands for 512 tokens; 64K in a store and 1M without if not given");
  command.add_option("--path", options->settings.folder, "Folder for the scratch file of the store")
      ->type_name("FOLDER")
      ->capture_default_str();
  command
      .add_option("--policy", options->settings.policies, "Policies of the store: chats, shared, ADMISSION+EVICTION")
      ->type_name("NAME")
      ->capture_default_str();
  command.add_flag("--json", options->json, "The replay and the goals as one JSON object");
  command.add_flag("--check", options->check, "Exit with 1 when a goal is missed or was not measured");
  set_examples(command, {"artesian replay conversation_trace.jsonl --path /mnt/ssd",
                         "artesian replay conversation_trace.jsonl --policy-only",
                         "artesian replay conversation_trace.jsonl --policy-only --blocks 5000 10000 --check",
                         "artesian replay trace.jsonl --policy-only --blocks 30000 --segment 64 --json"});
  return [options] { return replay(*options); };
}

}  // namespace artesian::cli
