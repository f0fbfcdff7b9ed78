// A store that another process has open, used as if it were one's own: a Store and its host at once. Requests go to the
// owner through a socket, data through memory that both have; a block is copied once, between that and the caller's.
//
// Nothing waits for ever: what the owner does not answer in time is late, or failed. When the owner goes, what was
// under way has failed, and from then on gets fail, puts are rejected and nothing exists; once it is back, all goes on
// (namespaces are opened anew, pins are gone).
//
// Threads: as StoreHost; it runs on one thread that it is lent, on which callbacks run. Ownership: as Store. Limits:
// the shared memory; a block that does not fit into it is invalid; what finds no room waits, reads before puts.
#pragma once

#include <memory>
#include <string>

#include "artesian/store_host.h"
#include "base/executor.h"
#include "base/units.h"

namespace artesian {

struct AttachSettings {
  std::string socket;                         // where the owner takes clients,
  std::string control;                        // and where it answers questions
  std::uint64_t buffer_bytes = 256 * MiB;     // of shared memory
  Nanos patience = std::chrono::seconds(30);  // with the owner, for what has no deadline
  std::function<void(std::string_view)> report;
};

// not_found if nobody is there. `clock` lives longer; `executor` has one thread, not free until the store goes.
Result<std::unique_ptr<StoreHost>> attach_store(AttachSettings settings, const Clock& clock,
                                                std::unique_ptr<Executor> executor);

}  // namespace artesian
