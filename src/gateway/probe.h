// Finds out, by a few short calls, what a running llama-server is: its model and settings, how its slot files are laid
// out, what its model computes, and whether a restored slot is used. Disturbs one slot, an empty one where there is
// one.
//
// Threads: on the loop; what reads files goes to the worker. Errors: retry while the server is not ready, rejected with
// the reason where contexts cannot be kept for this server.
#pragma once

#include <string>
#include <vector>

#include "format/slot_file.h"
#include "gateway/http.h"
#include "gateway/staging.h"

namespace artesian {

struct ServerFacts {
  std::string model_path, build;
  std::string computes;  // digest of the keys and values of a few tokens: other weights, adapters, rope or types differ
  std::string adapters;  // what /lora-adapters says
  int slots = 0;
  std::uint64_t context_tokens = 0;  // of a slot
  SlotLayout layout;
  std::uint32_t streams = 0;
  double prefill_tokens_per_second = 0;  // of these few tokens, the server's first; 0 where it does not say
};

// Whether it answers and has its model.
Task<bool> server_ready(Upstream& server);

Task<Result<ServerFacts>> probe_server(Upstream& server, Staging& staging, Executor& worker,
                                       const std::string& authorization);

// The last request's number of each slot, which rises; empty where the server does not say (--no-slots).
Task<std::vector<std::int64_t>> last_tasks(Upstream& server, std::string authorization);

// POST /slots/{id}?action={action} with a file of this name; rejected with what the server says.
Task<Status> slot_action(Upstream& server, int slot, std::string action, std::string file,
                         const std::string& authorization);

}  // namespace artesian
