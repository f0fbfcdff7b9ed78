// A store that is open answers questions of its owner's other programs: so `artesian store stat`, `ls` and `verify`
// work beside an engine that has it. One line of JSON is asked, {"op": "stat"}; lines of JSON come back, the last of
// which has "end": true, or "error" with a sentence. The socket is the owner's alone.
//
// Threads: the server runs on threads that it is lent, one question each. Ownership: the store lives longer.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "artesian/store.h"
#include "base/executor.h"
#include "platform/local_socket.h"

namespace artesian {

struct StoreQuestion {
  std::string op;                 // "stat", "ls" or "verify"
  std::optional<NamespaceId> ns;  // ls: of this alone
};

// The answers, which do not depend on who asks. One JSON object each; `line` returns false to end it.
// "stat": one line. "ls": one a block. "verify": {"blocks", "of", "bytes", "bad", "records_skipped"} while it goes on,
// of which the last is the result. invalid for another question.
Status store_answer(Store& store, const StoreQuestion& question, const std::function<bool(std::string)>& line);

class ControlServer {
 public:
  static constexpr std::size_t threads = 2;  // so that stat is answered while verify goes on

  // `executor` has that many threads, and none of them free until the server goes.
  static Result<std::unique_ptr<ControlServer>> start(Store& store, const std::string& path,
                                                      std::unique_ptr<Executor> executor);
  ~ControlServer();

 private:
  ControlServer(Store& store, LocalListener listener, Event stop)
      : store_(store), listener_(std::move(listener)), stop_(std::move(stop)) {}
  void serve();
  void answer(LocalSocket socket);

  Store& store_;
  LocalListener listener_;
  Event stop_;
  std::unique_ptr<Executor> executor_;  // goes first
};

// Asks the owner of a store that is open elsewhere; each line but the last goes to `line`. not_found if nobody answers.
Status ask_owner(const std::string& path, const StoreQuestion& question,
                 const std::function<void(std::string_view)>& line);

// The same, as values.
struct OwnerStats {
  StoreStats stats;
  std::vector<NamespaceFacts> namespaces;
};
Result<OwnerStats> ask_owner_stats(const std::string& path);
Status ask_owner_list(const std::string& path, NamespaceId ns, const std::function<bool(const BlockFacts&)>& each);
Result<VerifyReport> ask_owner_verify(const std::string& path,
                                      const std::function<void(const VerifyReport&)>& progress);

}  // namespace artesian
