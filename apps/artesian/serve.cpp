// artesian serve: the gateway in front of a llama-server that it starts and watches, or of one that runs already.
#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/units.h"
#include "commands.h"
#include "door_files.h"
#include "gateway/front.h"
#include "gateway/gateway.h"
#include "gateway/prefix_tree.h"
#include "gateway/server_command.h"
#include "gateway/server_process.h"
#include "key_file.h"
#include "platform/clock.h"
#include "platform/file.h"
#include "platform/shared_mapping.h"
#include "platform/thread_executor.h"
#include "store/store_files.h"

namespace artesian::cli {
namespace {

namespace net = boost::asio;
using namespace std::chrono_literals;

constexpr auto save_at_end_max = 5s;
constexpr std::size_t worker_threads = 3;  // neither a save nor reading ahead holds up a restore

struct ServeOptions {
  std::uint64_t kv_bytes = 0, memory = 0, staging_bytes = 4 * GiB, ahead_bytes = 256 * MiB, write_bytes_per_day = 0;
  std::string kv_path, key_file, upstream, slot_folder, staging_parent = "/dev/shm", host, api_key_file;
  std::optional<std::uint16_t> port;  // 0: one that is free
  std::uint32_t silence_seconds = 900;
  bool share = false, quiet = false;
};

// What is served and where: from the options, or from the server's own command line.
struct Plan {
  ServerAddress address;
  std::optional<Command> server;
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;
  std::vector<std::string> api_keys;
};

void say(std::string_view sentence) {
  std::fprintf(stderr, "artesian: serve: %.*s\n", static_cast<int>(sentence.size()), sentence.data());
}

Status add_keys(const std::string& path, std::vector<std::string>& keys) {
  const auto more = read_key_file(path);
  if (!more) return fail(more.error());
  keys.insert(keys.end(), more->begin(), more->end());
  return {};
}

// Where something is remembered beside the store; of one on a block device in the cache folder.
std::string beside(const Context& context, const std::string& kv_path, const std::string& what) {
  std::error_code error;
  if (std::filesystem::is_directory(kv_path, error)) return kv_path + "/artesian." + what;
  if (std::filesystem::is_block_file(kv_path, error)) return context.cache_dir + "/artesian/kv." + what;
  return kv_path + "." + what;
}

Result<std::string> kv_path_of(const Context& context, const ServeOptions& options) {
  if (!options.kv_path.empty()) return options.kv_path;
  std::string path = context.cache_dir + "/artesian/kv";
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return fail(Code::rejected, "{}: cannot be made: {}", path, error.message());
  return path;
}

Result<std::unique_ptr<Store>> open_kv(const std::string& path, const ServeOptions& options) {
  StoreFilesOptions files;
  files.paths = {{.path = path, .bytes = options.kv_bytes}};
  files.geometry.block_bytes_max = block_bytes_aim;
  files.key_file = options.key_file;
  files.engine.report = say;
  // For what waiting requests need alone: the server has what was used last, in its slots.
  files.engine.memory_bytes = options.ahead_bytes;
  files.engine.memory_on_put = files.engine.memory_on_get = false;
  const std::string file = is_folder(path) ? path + "/artesian.store" : path;
  if (!file_exists(file)) {
    if (options.kv_bytes == 0)
      return fail(Code::invalid, "serve: --kv says how much flash contexts may take: --kv 50G");
    if (auto made = create_store(files, false); !made) return fail(std::move(made.error()));
  }
  return open_store(files);
}

Result<Plan> plan_upstream(const ServeOptions& options) {
  if (options.slot_folder.empty()) {
    return fail(Code::invalid, "serve: --upstream needs --slot-dir, the folder of the server's --slot-save-path");
  }
  auto address = parse_address(options.upstream);
  if (!address) return fail(std::move(address.error()));
  return Plan{.address = std::move(*address), .server = std::nullopt};
}

Result<Plan> plan_server(const Context& context, const ServeOptions& options, const Staging& staging) {
  const auto runtime = private_runtime_folder(context.runtime_dir);
  if (!runtime) return fail(runtime.error());
  const std::string socket = fmt::format("{}/server-{}.sock", *runtime, own_pid());
  const ServerEnvironment environment{.host = context.server_host,
                                      .port = context.server_port,
                                      .api_key = context.server_api_key,
                                      .cache_ram = context.server_cache_ram};
  auto behind = behind_gateway(context.after_dashes, environment, socket, staging.folder());
  if (!behind) return fail(std::move(behind.error()));
  auto address = parse_address("unix:" + socket);
  if (!address) return fail(std::move(address.error()));
  Plan plan{.address = std::move(*address), .server = Command{}, .host = behind->host, .port = behind->port};
  plan.api_keys = std::move(behind->api_keys);
  if (!behind->api_key_file.empty()) {
    if (auto read = add_keys(behind->api_key_file, plan.api_keys); !read) return fail(std::move(read.error()));
  }
  const auto program = find_program(behind->arguments[0], context.search_path);
  if (!program) return fail(program.error());
  plan.server->path = *program;
  plan.server->arguments = std::move(behind->arguments);
  if (options.memory != 0) {
    const auto door = find_door();
    if (!door) return fail(door.error());
    auto stats = stats_path(context, own_pid());
    if (!stats) return fail(std::move(stats.error()));
    open_door(context, *door, {.memory = options.memory, .stats_file = *stats}, *plan.server);
  }
  return plan;
}

Result<Plan> make_plan(const Context& context, const ServeOptions& options, const Staging& staging) {
  auto plan = options.upstream.empty() ? plan_server(context, options, staging) : plan_upstream(options);
  if (!plan) return plan;
  if (!options.host.empty()) plan->host = options.host;
  if (options.port) plan->port = *options.port;
  if (!options.api_key_file.empty()) {
    if (auto read = add_keys(options.api_key_file, plan->api_keys); !read) return fail(std::move(read.error()));
  }
  if (plan->api_keys.empty() && !is_loopback(plan->host)) {
    return fail(Code::invalid, "serve: --host {} is reached from elsewhere, so an API key is asked for: --api-key-file",
                plan->host);
  }
  return plan;
}

// The running parts, in the order in which they can be taken down again.
class Service {
 public:
  Service(GatewaySettings settings, Plan plan, Staging& staging, Store& store, ThreadExecutor& worker)
      : plan_(std::move(plan)),
        signals_(loop_, SIGINT, SIGTERM),
        front_(loop_.get_executor(), HttpLimits{},
               [this](Stream& client, Request& request) { return gateway_->handle(client, request); }) {
    settings.attached = [this] {
      if (server_) server_->was_ready();
    };
    gateway_.emplace(Gateway::Parts{loop_.get_executor(), worker, store, clock_, staging}, plan_.address,
                     std::move(settings));
  }

  Result<int> run() {
    if (auto listening = front_.listen(plan_.host, plan_.port); !listening) return fail(std::move(listening.error()));
    say(fmt::format("listening on http://{}:{}", plan_.host, front_.port()));
    front_.start();
    signals_.async_wait([this](const boost::system::error_code& error, int) {
      if (!error) net::co_spawn(loop_, end(), net::detached);
    });
    if (plan_.server) net::co_spawn(loop_, run_server(), net::detached);
    net::co_spawn(loop_, gateway_->attach(), net::detached);
    loop_.run();
    return exit_code_;
  }

 private:
  Task<void> run_server() {
    const std::string socket = plan_.server->arguments.empty() ? "" : socket_path();
    ServerProcess::Events events;
    events.before_start = [socket] { static_cast<void>(remove_file(socket)); };
    events.ended = [this](int) { gateway_->server_lost(); };
    events.report = say;
    server_ = std::make_unique<ServerProcess>(loop_.get_executor(), *plan_.server, std::move(events));
    exit_code_ = co_await server_->run();
    static_cast<void>(remove_file(socket));
    loop_.stop();
  }

  std::string socket_path() const {
    const auto& words = plan_.server->arguments;
    const auto host = std::ranges::find(words, "--host");
    return *(host + 1);
  }

  // No new requests; what is not saved yet is saved; then the server, then we.
  Task<void> end() {
    front_.stop();
    co_await gateway_->finish(save_at_end_max);
    if (server_) {
      co_await server_->stop();
    } else {
      loop_.stop();
    }
  }

  SteadyClock clock_;
  Plan plan_;
  Result<int> exit_code_ = exit_ok;
  // Coroutines that are left when the loop goes refer to these.
  std::optional<Gateway> gateway_;
  std::unique_ptr<ServerProcess> server_;
  net::io_context loop_{1};
  net::signal_set signals_;
  Front front_;
};

GatewaySettings settings_of(const Context& context, const ServeOptions& options, const Plan& plan,
                            const std::string& kv_path) {
  GatewaySettings settings;
  settings.http.silence_max = std::chrono::seconds(options.silence_seconds);
  settings.api_keys = plan.api_keys;
  if (!plan.api_keys.empty()) settings.authorization = "Bearer " + plan.api_keys.front();
  settings.share_between_tenants = options.share;
  settings.write_bytes_per_day = options.write_bytes_per_day;
  settings.ahead_bytes_max = options.ahead_bytes;
  settings.unix_ms = unix_time_ms;
  settings.fingerprints = beside(context, kv_path, "models");
  settings.pins = beside(context, kv_path, "pins");
  if (!options.quiet) settings.report = say;
  return settings;
}

Result<int> serve(const Context& context, const ServeOptions& options) {
  if (options.upstream.empty() == context.after_dashes.empty()) {
    return fail(Code::invalid, "serve: name the server after --, or one that runs already with --upstream: {}",
                "artesian serve --kv 50G -- llama-server -m model.gguf");
  }
  auto staging = options.upstream.empty() ? Staging::make(options.staging_parent, options.staging_bytes)
                                          : Staging::use(options.slot_folder, options.staging_bytes);
  if (!staging) return fail(std::move(staging.error()));
  auto plan = make_plan(context, options, *staging);
  if (!plan) return fail(std::move(plan.error()));
  const auto path = kv_path_of(context, options);
  if (!path) return fail(path.error());
  auto store = open_kv(*path, options);
  if (!store) return fail(std::move(store.error()));
  auto worker = ThreadExecutor::open(worker_threads);
  if (!worker) return fail(std::move(worker.error()));
  GatewaySettings settings = settings_of(context, options, *plan, *path);
  Service service(std::move(settings), std::move(*plan), *staging, **store, **worker);
  auto exit_code = service.run();
  worker->reset();  // what it still does ends while the loop that it answers to is there
  if (auto flushed = (*store)->flush(); !flushed) say(flushed.error().message);
  return exit_code;
}

}  // namespace

Action setup_serve(CLI::App& command, const Context& context) {
  auto options = std::make_shared<ServeOptions>();
  add_size(command, "--kv", options->kv_bytes, "Flash that contexts may take; taken at once when the store is made");
  command.add_option("--kv-path", options->kv_path,
                     "Folder, file or block device of the store; else in the cache folder");
  command.add_option(
      "--key-file", options->key_file,
      "The store is, or is to be, encrypted with the key in this file: 32 bytes or 64 hex digits, mode 0600");
  add_size(command, "--memory", options->memory, "Open the weights door too, with so much memory for weights");
  command.add_option("--upstream", options->upstream, "A llama-server that runs already: http://host:port");
  command.add_option("--slot-dir", options->slot_folder, "Its --slot-save-path, which must be on this machine");
  command.add_option("--host", options->host, "Listen here; else where the server would have, or on 127.0.0.1");
  command.add_option("--port", options->port,
                     "Listen here (0: one that is free); else where the server would have, or on 8080");
  command.add_option("--api-key-file", options->api_key_file, "Keys that clients must have, one a line");
  add_size(command, "--write-budget", options->write_bytes_per_day, "The most that is written to flash in a day");
  command.add_option("--staging", options->staging_parent, "Folder in memory for slot files on their way")
      ->capture_default_str();
  add_size(command, "--staging-size", options->staging_bytes, "The most that lies there")->default_str("4G");
  add_size(command, "--ahead", options->ahead_bytes, "Memory for what waiting requests will need, read ahead")
      ->default_str("256M");
  command
      .add_option("--server-silence", options->silence_seconds,
                  "Seconds for which the server may say nothing in the middle of a request; then it is an error")
      ->check(CLI::Range(1U, 86400U))
      ->capture_default_str();
  command.add_flag("--share", options->share, "Contexts of one API key may be found by others");
  command.add_flag("--quiet", options->quiet, "Say only what goes wrong");
  set_examples(command,
               {"artesian serve --kv 50G -- llama-server -m model.gguf -c 32768 -np 4",
                "artesian serve --kv 50G --memory 8G -- llama-server -m model.gguf",
                "artesian serve --kv 50G --upstream http://127.0.0.1:8081 --slot-dir /dev/shm/slots --port 8080"});
  command.footer("All after -- is the server and its arguments.\n\n" + command.get_footer());
  return [&context, options] { return serve(context, *options); };
}

}  // namespace artesian::cli
