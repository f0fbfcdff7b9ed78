#include "bench/gateway_servers.h"

#include <nlohmann/json.hpp>

namespace artesian::bench {

namespace {

using nlohmann::json;

constexpr auto ready_time_max = std::chrono::minutes(10);  // a model that is read from a slow disk
constexpr auto end_time_max = std::chrono::seconds(30);
constexpr auto look_again = std::chrono::milliseconds(5);

// "{port}" in the arguments is one that is free.
std::vector<std::string> with_port(std::vector<std::string> arguments, std::uint16_t port) {
  for (std::string& word : arguments) {
    if (word == "{port}") word = std::to_string(port);
  }
  return arguments;
}

}  // namespace

Result<Running> Running::start(GatewayClient& client, const GatewayPrograms& programs,
                               std::vector<std::string> arguments, const std::string& log) {
  const auto port = client.free_port();
  if (!port) return fail(port.error());
  std::vector<std::string> line = {"bash", "-c", "log=$1; shift; exec \"$@\" >\"$log\" 2>&1", "artesian-bench", log};
  for (std::string& word : with_port(std::move(arguments), *port)) line.push_back(std::move(word));
  auto child = ChildProcess::start({programs.shell, std::move(line), {}});
  if (!child) return fail(std::move(child.error()));
  return Running(client, std::move(*child), fmt::format("http://127.0.0.1:{}", *port), log);
}

Status Running::wait_until(const std::string& target, const std::function<bool(const std::string&)>& is_so) {
  for (Nanos waited{0}; waited < ready_time_max; waited += look_again) {
    if (const auto code = child_->exit_code()) {
      return fail(Code::rejected, "it ended with {}; {} says why", *code, log_);
    }
    const auto answer = client_->call(url_, "GET", target);
    if (answer && is_so(*answer)) return {};
    if (auto paused = client_->pause(look_again); !paused) return paused;
  }
  return fail(Code::retry, "{}{}: did not become what was waited for; {} may say why", url_, target, log_);
}

Status Running::stop() {
  child_->ask_to_end();
  for (Nanos waited{0}; waited < end_time_max; waited += look_again) {
    if (child_->exit_code()) {
      child_.reset();
      return {};
    }
    if (auto paused = client_->pause(look_again); !paused) return paused;
  }
  child_.reset();
  return fail(Code::rejected, "{}: did not end when it was asked to; {} may say why", url_, log_);
}

Result<Running> start_server(GatewayClient& client, const GatewayPrograms& programs, const ServerSetup& setup,
                             const std::string& log) {
  std::vector<std::string> line = {programs.server,
                                   "-m",
                                   setup.model,
                                   "-c",
                                   std::to_string(setup.context * setup.slots),
                                   "-np",
                                   std::to_string(setup.slots),
                                   "--no-kv-unified",
                                   "--no-webui",
                                   "--cache-ram",
                                   "0",
                                   "--no-cache-idle-slots",
                                   "--slot-save-path",
                                   setup.slot_folder + "/",
                                   "--host",
                                   "127.0.0.1",
                                   "--port",
                                   "{port}"};
  if (setup.threads != 0) line.insert(line.end(), {"-t", std::to_string(setup.threads)});
  auto running = Running::start(client, programs, std::move(line), log);
  if (!running) return running;
  const auto ready = running->wait_until("/health", [](const std::string&) { return true; });
  if (!ready) return fail(ready.error());
  return running;
}

Result<Running> start_gateway(GatewayClient& client, const GatewayPrograms& programs, const Url& server,
                              const std::string& slot_folder, const std::string& store, std::uint64_t store_bytes,
                              const std::string& log) {
  auto running = Running::start(client, programs,
                                {programs.artesian, "serve", "--kv", std::to_string(store_bytes), "--kv-path", store,
                                 "--upstream", server, "--slot-dir", slot_folder, "--port", "{port}"},
                                log);
  if (!running) return running;
  std::string reason;
  const auto ready = running->wait_until("/artesian/status", [&reason](const std::string& body) {
    const json status = json::parse(body, nullptr, false);
    if (status.value("state", "") == "plain") reason = status.value("reason", "");
    return status.value("state", "") == "ready" || !reason.empty();
  });
  if (!ready) return fail(ready.error());
  if (!reason.empty()) return fail(Code::rejected, "the gateway is a plain proxy: {}", reason);
  return running;
}

Result<Running> start_hearth(GatewayClient& client, const GatewayPrograms& programs, const Url& server,
                             const std::string& cache_folder, const std::string& log) {
  auto running = Running::start(
      client, programs,
      {programs.hearth, "serve", "--upstream", server, "--cache-dir", cache_folder, "--port", "{port}"}, log);
  if (!running) return running;
  const auto ready = running->wait_until("/hearth/stats", [](const std::string&) { return true; });
  if (!ready) return fail(ready.error());
  return running;
}

}  // namespace artesian::bench
