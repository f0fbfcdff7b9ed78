// artesian bench store: the store beside the drive alone, one file per block and other stores.
#include <cstdio>
#include <memory>

#include "bench/store_measure.h"
#include "commands.h"
#include "goals_output.h"
#include "library/open.h"
#include "platform/clock.h"
#include "platform/process.h"
#include "progress.h"

namespace artesian::cli {
namespace {

struct StoreCommand {
  bench::StoreBenchOptions bench;
  std::string search_path, cache_dir;
  bool no_peers = false, attached = false, json = false, check = false;
};

// The store by way of a client: its owner is this process, too, but neither knows.
Result<std::shared_ptr<Store>> open_attached(const StoreFilesOptions& files) {
  struct Both {
    std::unique_ptr<Host> owner;
    std::unique_ptr<StoreHost> client;  // goes first
  };
  auto owner = open_host(files, {.share = true});
  if (!owner) return fail(std::move(owner.error()));
  auto client = attach_host(files.paths.front().path);
  if (!client) return fail(std::move(client.error()));
  const auto both = std::make_shared<Both>(std::move(*owner), std::move(*client));
  return std::shared_ptr<Store>(both, &both->client->store());
}

// Programs stand beside this one; what is spoken to in Python, in the cache folder (bench/peers/setup).
std::vector<bench::StorePeer> find_peers(const StoreCommand& command) {
  std::vector<bench::StorePeer> peers{{.name = "RocksDB"}, {.name = "LMCache"}, {.name = "Mooncake"}};
  const auto self = own_executable();
  if (!self) return peers;
  const std::string folder = self->substr(0, self->rfind('/') + 1);
  if (const auto rocksdb = find_program(folder + "artesian-peer-rocksdb", {})) peers[0].command = {*rocksdb};
  if (const auto python = find_program(command.cache_dir + "/artesian/peers/bin/python", {})) {
    peers[1].command = {*python, folder + "peers/lmcache_files.py"};
    peers[2].command = {*python, folder + "peers/mooncake_store.py"};
  }
  return peers;
}

Result<int> bench_store(const StoreCommand& command) {
  bench::StoreBenchOptions options = command.bench;
  options.files = !command.no_peers;
  if (!command.no_peers) options.peers = find_peers(command);
  if (command.attached) options.open = open_attached;
  if (options.block_bytes.empty()) options.block_bytes = {64 * KiB, 128 * KiB, 1 * MiB, 4 * MiB};
  if (options.depths.empty()) options.depths = {1, 8, 32};
  options.report = [](std::string_view sentence) { fmt::print(stderr, "artesian: {}\n", sentence); };
  if (const auto fio = find_program("fio", command.search_path)) options.fio = *fio;
  const SteadyClock clock;
  auto report = [&] {
    ProgressLine line;
    options.progress = [&line](double part, std::string_view what) { line.show(part, what); };
    return bench::measure_store(options, clock);
  }();
  if (!report) return fail(report.error());
  return print_beside_goals({.section = "store",
                             .measured_name = "measured",
                             .goals_name = "goals",
                             .json = command.json,
                             .check = command.check},
                            bench::store_bench_figures(*report), bench::store_bench_text(*report),
                            bench::store_bench_json(*report));
}

}  // namespace

Action setup_bench_store(CLI::App& command, const Context& context) {
  auto options = std::make_shared<StoreCommand>();
  options->search_path = context.search_path;
  options->cache_dir = context.cache_dir;
  bench::StoreBenchOptions& bench = options->bench;
  command
      .add_option("FOLDER", bench.folder, "Where scratch files are made, on the drive to be measured; they are removed")
      ->type_name("")
      ->required();
  add_size(command, "--size", bench.bytes, "Of the store; 2G if not given. Three times that is taken for a while");
  add_sizes(command, "--block", bench.block_bytes, "Bytes of a block, again for more; else 64K, 128K, 1M and 4M");
  command.add_option("--depth", bench.depths, "Reads under way at once, again for more; else 1, 8 and 32")
      ->check(CLI::Range(1U, 64U))
      ->allow_extra_args(false);
  command.add_option("--seconds", bench.seconds, "Of one measurement of reads")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  command.add_option("--rounds", bench.rounds, "All subjects in turn, so many times")
      ->check(CLI::Range(1U, 100U))
      ->capture_default_str();
  command.add_option("--key-file", bench.key_file, "The store is encrypted with the key in this file");
  command.add_flag("--no-peers", options->no_peers, "Without one file per block and other stores");
  command.add_flag("--attached", options->attached, "The store as a process has it that attached to artesiand");
  command.add_flag("--json", options->json, "One JSON object");
  command.add_flag("--check", options->check, "Exit code 1 when a goal is missed");
  set_examples(command,
               {"artesian bench store /nvme", "artesian bench store . --size 512M --block 128K --depth 8 --rounds 5",
                "artesian bench store /nvme --check --json"});
  return [options] { return bench_store(*options); };
}

}  // namespace artesian::cli
