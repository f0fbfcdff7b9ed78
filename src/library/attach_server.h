// The owner's side of attaching: other processes of the same user use the store through it, data lying in memory that
// they share with it. What a client had pinned is let go when it ends; what it had under way ends first.
//
// A client that sends what is no request is cut off, others do not notice. It sees the namespaces that it opened
// itself. Limits: clients, bytes of shared memory each, items under way each (its next request waits then).
//
// Threads: runs on threads that it is lent. Ownership: the host lives longer; the socket's name goes with this.
#pragma once

#include <memory>
#include <string>

#include "artesian/store_host.h"
#include "base/executor.h"
#include "base/units.h"

namespace artesian {

class AttachServer {
 public:
  static constexpr std::size_t threads = 4;  // so that others go on while one waits for a flush
  static constexpr std::size_t clients_max = 64;
  static constexpr std::size_t under_way_max = 16 * 1024;
  static constexpr std::uint64_t memory_bytes_max = 16 * GiB;

  // `executor` has that many threads, and none of them free until the server goes.
  static Result<std::unique_ptr<AttachServer>> start(StoreHost& host, const std::string& path,
                                                     std::unique_ptr<Executor> executor);
  virtual ~AttachServer() = default;  // cuts all clients off

  virtual std::size_t clients() const = 0;
};

}  // namespace artesian
