// artesian store serve, also installed as artesiand: owns a KV store and shares it with the engines of this machine.
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdio>
#include <memory>

#include "base/units.h"
#include "commands.h"
#include "library/open.h"
#include "store_options.h"

namespace artesian::cli {
namespace {

struct DaemonOptions {
  StoreOptionsPtr store;
  std::uint64_t memory = 0;
  std::string metrics;
  bool quiet = false;
};

void say(std::string_view text) {
  std::fprintf(stderr, "artesian: store: %.*s\n", static_cast<int>(text.size()), text.data());
}

Result<std::unique_ptr<Host>> open_shared(const DaemonOptions& options) {
  StoreFilesOptions files = files_of(*options.store);
  files.engine.memory_bytes = options.memory;
  const HostOptions host{.metrics = options.metrics, .share = true};
  auto opened = open_host(files, host);
  if (opened || opened.error().code != Code::not_found || options.store->size == 0) return opened;
  if (auto made = create_store(files, false); !made) return fail(std::move(made.error()));
  return open_host(files, host);
}

// Until it is told to end.
void wait_for_signal() {
  boost::asio::io_context loop(1);
  boost::asio::signal_set signals(loop, SIGINT, SIGTERM, SIGHUP);
  signals.async_wait([](auto, int) {});
  loop.run();
}

Result<int> serve_store(const DaemonOptions& options) {
  auto host = open_shared(options);
  if (!host) return fail(std::move(host.error()));
  const StoreStats stats = (*host)->store().stats();
  if (!options.quiet) {
    say(fmt::format("{}: {} blocks, {} of {} in use; processes of this user may attach", options.store->paths.front(),
                    stats.blocks, format_size(stats.live_bytes), format_size(stats.capacity_bytes)));
    if (!options.metrics.empty()) say(fmt::format("metrics: port {}", (*host)->metrics_port()));
  }
  wait_for_signal();
  if (auto flushed = (*host)->store().flush(); !flushed) return fail(std::move(flushed.error()));
  host->reset();
  if (!options.quiet) say("closed; what was stored is on flash");
  return exit_ok;
}

}  // namespace

Action setup_store_serve(CLI::App& command, const Context&) {
  auto options = std::make_shared<DaemonOptions>();
  options->store = add_store_paths(command);
  command.get_option("--path")->description("A file or folder of the store; once for each");
  add_size(command, "--size", options->store->size,
           "Cap of each path, metadata included; a store that is not there is made");
  add_size(command, "--memory", options->memory, "Memory tier in front of flash")->default_str("none");
  add_size(command, "--block-max", options->store->geometry.block_bytes_max, "Of a new store: the largest block")
      ->default_str("by its size");
  command.add_option("--metrics", options->metrics,
                     "Serve figures for Prometheus: PORT on this machine, or ADDRESS:PORT");
  command.add_flag("--quiet", options->quiet, "Say only what goes wrong");
  set_examples(command, {"artesian store serve --path /nvme/kv --size 500G --memory 16G",
                         "artesiand --path /nvme/kv --metrics 9464"});
  return [options] { return serve_store(*options); };
}

}  // namespace artesian::cli
