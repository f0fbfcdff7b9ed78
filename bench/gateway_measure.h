// What `artesian bench gateway` measures: contexts that come back from flash through `artesian serve`, beside what the
// server itself does with the same bytes in memory, beside computing them, and beside hearth, which keeps whole slot
// files. The same llama-server with the same requests on all sides; everything is started anew between what is kept and
// what is asked for. Texts are compared.
//
// Threads: one. Errors: what a program says that cannot be started, retry after SIGINT or SIGTERM.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bench/gateway_servers.h"
#include "bench/goals.h"

namespace artesian::bench {

struct GatewayModel {
  std::string name;  // of its cases: "smollm"
  std::string file;
  std::uint32_t prompt_words = 0;  // about as many tokens
  std::uint32_t shared_words = 0;  // that another conversation begins with, too
  std::uint32_t context = 0;       // of a slot, in tokens
};

struct GatewayCaseInfo {
  std::string_view name;  // "smollm.restart"; its goals are gateway.smollm.restart and what begins with it and a dot
  std::string_view what;
};
std::span<const GatewayCaseInfo> gateway_cases();

struct GatewayBenchOptions {
  GatewayPrograms programs;
  std::string folder;  // on the drive that is measured: stores and logs, removed at the end
  std::string memory;  // a folder in memory for slot files on their way, removed as well
  std::vector<GatewayModel> models;
  std::set<std::string> cases;
  std::uint32_t rounds = 3, threads = 0;
  std::function<void(double part, std::string_view what)> progress;
};

// Seconds, one for each round.
struct RestartFigures {
  double computed = 0;  // to the first token when nothing is kept
  std::uint64_t prompt_tokens = 0, restored_tokens = 0, file_bytes = 0;
  std::vector<double> gateway;       // to the first token after a restart of everything
  std::vector<double> restore;       // of that: the gateway's own part
  std::vector<double> read;          // of as many bytes from the drive, nothing else
  std::vector<double> server;        // the server's own restore from a file in memory, and the first token after it
  std::vector<double> server_first;  // of that: the first token
  std::vector<double> goes_on;       // as `gateway`, for the next question of the conversation
  std::vector<double> hearth;        // the same, hearth before the server
};

// A conversation that was never seen, whose beginning was.
struct SharedFigures {
  std::uint64_t prompt_tokens = 0, shared_tokens = 0, computed_tokens = 0;
  double gateway = 0;                 // seconds to its first token
  std::optional<double> hearth;       // the same
  std::uint64_t hearth_computed = 0;  // tokens
};

struct StorageFigures {
  std::uint64_t conversations = 0, shared_tokens = 0, own_tokens = 0;  // own: of all together
  std::uint64_t stored_tokens = 0, stored_bytes = 0;
};

struct MissFigures {
  std::vector<double> short_direct, short_gateway;  // seconds to the first token, pairs
  std::vector<double> long_direct, long_gateway;
  std::vector<double> one_direct, one_gateway;    // seconds for the same number of requests, one client
  std::vector<double> many_direct, many_gateway;  // 16 clients
};

struct SaveFigures {
  std::vector<double> alone;   // seconds to the first token of a short request, nothing to be saved
  std::vector<double> beside;  // the same while a long conversation is about to be saved
  double pause_max = 0;        // for which the server stood still
  double worst = 0;            // for which it would with a full context, as the gateway computes
};

struct GatewayModelFigures {
  std::optional<RestartFigures> restart;
  std::optional<SharedFigures> shared;
  std::optional<StorageFigures> storage;
  std::optional<MissFigures> miss;
  std::optional<SaveFigures> save;
  std::uint64_t texts = 0, wrong = 0;  // answers that were compared, and that were another text
};

struct GatewayReport {
  std::string machine, hearth;  // hearth: why it is not there
  std::vector<std::pair<std::string, GatewayModelFigures>> models;
};

Result<GatewayReport> measure_gateway(const GatewayBenchOptions& options, const Clock& clock);

std::string gateway_text(const GatewayReport& report);
std::string gateway_markdown(const GatewayReport& report);
std::string gateway_json(const GatewayReport& report);
// For the goals of section "gateway".
std::vector<GoalFigure> gateway_figures(const GatewayReport& report);

}  // namespace artesian::bench
