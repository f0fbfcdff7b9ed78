// The programs that `artesian bench gateway` compares, started beside it: llama-server, `artesian serve` before it, and
// hearth before another one. What they print goes to files in the bench's folder.
//
// Threads: one. Ownership: a Running ends its program when it goes; the client lives longer.
#pragma once

#include <optional>
#include <string>

#include "bench/gateway_client.h"
#include "platform/process.h"

namespace artesian::bench {

struct GatewayPrograms {
  std::string artesian, server, shell;
  std::string hearth;  // empty: not there
};

struct ServerSetup {
  std::string model;
  std::uint32_t context = 0;  // of a slot
  std::uint32_t slots = 1;
  std::uint32_t threads = 0;  // 0: its own choice
  std::string slot_folder;
};

class Running {
 public:
  // Started; not ready yet.
  static Result<Running> start(GatewayClient& client, const GatewayPrograms& programs,
                               std::vector<std::string> arguments, const std::string& log);
  // Asked to end, and waited for.
  Status stop();
  const Url& url() const { return url_; }
  // Until it answers with 200 and something of which `is_so` is true; rejected when it ends before.
  Status wait_until(const std::string& target, const std::function<bool(const std::string&)>& is_so);

 private:
  Running(GatewayClient& client, ChildProcess child, Url url, std::string log)
      : client_(&client), child_(std::move(child)), url_(std::move(url)), log_(std::move(log)) {}

  GatewayClient* client_;
  std::optional<ChildProcess> child_;
  Url url_;
  std::string log_;
};

// Each is ready when it is returned.
Result<Running> start_server(GatewayClient& client, const GatewayPrograms& programs, const ServerSetup& setup,
                             const std::string& log);
Result<Running> start_gateway(GatewayClient& client, const GatewayPrograms& programs, const Url& server,
                              const std::string& slot_folder, const std::string& store, std::uint64_t store_bytes,
                              const std::string& log);
Result<Running> start_hearth(GatewayClient& client, const GatewayPrograms& programs, const Url& server,
                             const std::string& cache_folder, const std::string& log);

}  // namespace artesian::bench
