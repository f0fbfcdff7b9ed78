// The gateway before one llama-server: takes requests, finds for each prompt the slot and the stored context that leave
// the least to compute, hands request and answer on, and saves what slots hold when they are idle. Where it cannot keep
// contexts for a server it is a plain proxy and says why.
//
// Threads: everything on the thread that runs the io_context; what blocks goes to the worker. Ownership: what is handed
// in lives longer. The whole of a request's way is in gateway_prompt.cpp, of saving in gateway_save.cpp, what clients
// say of their sessions in gateway_session.cpp.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "artesian/store.h"
#include "base/clock.h"
#include "base/executor.h"
#include "gateway/contexts.h"
#include "gateway/http.h"
#include "gateway/probe.h"
#include "gateway/prompt.h"
#include "gateway/session.h"
#include "gateway/slots.h"
#include "gateway/staging.h"
#include "gateway/write_budget.h"

namespace artesian {

struct GatewaySettings {
  HttpLimits http;
  std::vector<std::string> api_keys;      // those that clients may have; empty: none is asked for
  std::string authorization;              // of our own calls to the server
  bool share_between_tenants = false;     // contexts of one API key are found by others
  std::uint64_t write_bytes_per_day = 0;  // 0: no limit
  std::uint32_t queue_max = 256;          // requests that wait for a slot
  Duration queue_time_max = std::chrono::seconds(600);
  Duration save_pause_max = std::chrono::milliseconds(50);  // for which a save may hold up others; longer ones wait
  std::uint64_t ahead_bytes_max = 0;             // that the store's memory has for what waiting requests will need
  std::uint32_t sessions_max = 1024;             // that are remembered by name
  std::function<std::uint64_t()> unix_ms;        // the time of day, for what is to come; none: not known
  std::string fingerprints;                      // file in which those of models are remembered, or empty
  std::string pins;                              // the same for contexts that are pinned
  std::function<void(std::string_view)> report;  // one sentence, never a prompt or a key
  std::function<void()> attached;                // the server answers and was looked at
};

struct GatewayCounters {
  std::uint64_t requests = 0, prompts = 0, restores = 0, saves = 0, refused = 0, failed = 0;
  std::uint64_t prompt_tokens = 0, restored_tokens = 0, cached_tokens = 0, computed_tokens = 0, saved_tokens = 0;
  std::uint64_t saved_bytes = 0, restored_bytes = 0, unsaved_tokens = 0;
  std::uint64_t staged_blocks = 0, paused = 0, ended = 0;  // sessions that were said to
  double restore_seconds = 0, save_seconds_max = 0;
};

class Gateway {
 public:
  struct Parts {
    boost::asio::any_io_executor loop;
    Executor& worker;  // of two threads or more: a save does not hold up a restore
    Store& store;
    const Clock& clock;
    Staging& staging;
  };
  Gateway(Parts parts, ServerAddress server, GatewaySettings settings);

  // Looks at the server, again and again until it is there, and begins to keep contexts. Also after it was lost.
  Task<void> attach();
  // The server is gone: nothing that was known of it holds any more.
  void server_lost();

  // Answers one request; false when the connection is to be closed.
  Task<bool> handle(Stream& client, Request& request);

  // Saves what is not saved yet, as far as `time_max` allows.
  Task<void> finish(Duration time_max);

  std::string status_json();

 private:
  enum class State { starting, probing, ready, plain };
  struct Place {
    int slot = 0;
    std::size_t held = 0;
    bool restore = false;
    std::uint64_t server = 0;
  };
  struct Waiter {
    std::size_t work = 0;  // tokens to compute
    Nanos since{0};
    boost::asio::steady_timer* timer = nullptr;
  };
  // A slot in use; free again when this goes.
  class Lease;
  // What is brought into memory for a request that waits; over when this goes.
  class Ahead;
  struct AheadJob {
    const Ahead* owner = nullptr;
    std::shared_ptr<Contexts> contexts;
    BlockKey tenant{};
    std::vector<Token> tokens;
  };
  // Where a named session's context ends.
  struct Session {
    BlockKey tenant{};
    std::string name;
    BlockKey end{};
    std::uint64_t used = 0;  // rises with each use
  };
  struct Prepared {
    std::size_t restored = 0;
    double seconds = 0;
  };
  // A slot's state on its way to the store.
  struct SavedFile {
    int slot = 0;
    std::uint64_t server = 0, use = 0;
    std::string path;
    std::uint64_t reserved = 0;  // of the staging folder
    std::shared_ptr<Contexts> contexts;
    BlockKey tenant{};
    std::vector<Token> known;
    double pause = 0;  // of the server's loop, in seconds
    std::string session;
    Outlook outlook = Outlook::unknown;
    BlockHints hints;
  };
  // What a request needs on its way.
  struct Call {
    Stream& client;
    Request& request;
    ClientWatch& watch;
    PromptRequest prompt;
    std::string authorization;
    BlockKey tenant{};
    SessionHint session;
  };

  void report(std::string_view sentence) const;
  void set_state(State state, std::string reason);
  Task<Status> look_at_server();

  bool authorized(const Request& request, std::string_view path) const;
  Task<bool> serve_own(Stream& client, const Request& request, std::string_view path);
  Task<Response> own_answer(const Request& request, std::string_view path);
  Task<Response> serve_contexts(const Request& request, std::string_view path);
  std::string contexts_json(const std::optional<BlockKey>& tenant) const;
  BlockKey tenant_of(const Request& request, std::string_view salt) const;
  Task<void> wait_for_probe(ClientWatch& watch);

  // gateway_prompt.cpp
  Task<Relayed> serve(Call& call);
  Task<Relayed> refuse(Call& call, unsigned status, std::string why);
  Task<Relayed> serve_unpinned(Call& call);
  Task<Result<std::vector<Token>>> prompt_tokens(Call& call);
  Task<Result<Place>> take_slot(std::span<const Token> tokens, const BlockKey& tenant, bool reuse, ClientWatch& watch);
  void release_slot(const Place& place);
  std::size_t free_slots() const;
  void wake_waiter();
  std::uint64_t ahead_bytes(std::span<const Token> tokens, const BlockKey& tenant, std::size_t stored) const;
  Task<void> stage_ahead();
  Task<Prepared> prepare(const Place& place, std::span<const Token> tokens, const BlockKey& tenant);
  Task<void> discard(std::string path, std::uint64_t reserved);
  Task<Status> restore_slot(int slot, const std::string& name);
  Task<void> make_room(int slot);
  void learn(const Place& place, const Prepared& prepared, std::span<const Token> tokens, const Relayed& relayed);
  void settle(const Call& call, const Place& place, const Prepared& prepared, std::span<const Token> tokens,
              const Relayed& relayed, const std::vector<bool>& touched);
  Task<void> part_tenants(const BlockKey& tenant);
  Task<Relayed> relay_unnamed(Call& call, const Fields& extra, std::vector<bool>& touched);

  // gateway_session.cpp
  Result<SessionHint> session_of(const Request& request) const;
  void set_outlook(Slot& slot, const SessionHint& hint);
  void count_outlook(const SessionHint& hint);
  void expire_outlooks();
  BlockHints hints_of(const Slot& slot) const;
  void note_session(const SavedFile& file, const BlockKey& end);
  Response serve_session(const Request& request);

  // gateway_save.cpp
  void save_when_idle();
  Task<void> save_idle_slots();
  double save_seconds(std::size_t tokens) const;
  bool may_save(const Slot& slot) const;
  Task<std::optional<SavedFile>> take_file(int number);
  Task<void> keep(SavedFile file);
  Task<void> save_before_loss(int number);

  Parts parts_;
  GatewaySettings settings_;
  Upstream upstream_;
  WriteBudget budget_;

  State state_ = State::starting;
  std::string reason_ = "the server is being looked for";
  bool attaching_ = false;
  ServerFacts facts_;
  std::shared_ptr<Contexts> contexts_;
  std::vector<Slot> slots_;
  std::uint64_t server_ = 0;  // rises when the server is another one
  std::uint64_t uses_ = 0;
  CostFacts costs_;
  std::deque<Waiter*> waiting_;
  std::size_t woken_ = 0;
  std::deque<AheadJob> ahead_;
  std::uint64_t ahead_bytes_ = 0;  // of those that wait
  bool staging_ahead_ = false;
  std::vector<Session> sessions_;
  std::set<boost::asio::steady_timer*> probe_waiters_;
  std::uint32_t active_ = 0;  // requests that the server works on
  std::uint32_t useless_restores_ = 0;
  std::uint64_t staged_bytes_ = 0;
  std::uint32_t keeping_ = 0;  // files on their way to the store
  bool saving_ = false, finishing_ = false;
  double save_bytes_per_second_ = 500e6;  // until one was measured
  GatewayCounters counters_;
};

}  // namespace artesian
