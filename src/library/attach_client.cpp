#include "library/attach_client.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "base/gather.h"
#include "base/little_endian.h"
#include "library/control.h"
#include "library/ranges.h"
#include "library/tag_queue.h"
#include "platform/shared_memory.h"
#include "wire/attach_wire.h"

namespace artesian {
namespace {

namespace net = boost::asio;
using namespace attach;
using boost::system::error_code;
using Socket = net::local::stream_protocol::socket;

constexpr auto as_values = net::as_tuple(net::use_awaitable);
constexpr auto connect_time_max = std::chrono::seconds(10);
constexpr auto reconnect_pause = std::chrono::milliseconds(500);
constexpr Nanos look_again = std::chrono::milliseconds(50);
constexpr Nanos grace = std::chrono::seconds(1);  // after a deadline, for what was begun before it
constexpr Nanos close_patience = std::chrono::seconds(5);
constexpr Nanos long_patience = std::chrono::minutes(10);  // for a flush, and what else waits for a drive
constexpr std::uint64_t frame_data_max = 4 * MiB;          // so that one is copied while the next is read
constexpr std::size_t frame_items_max = 256;

std::uint64_t whole_pages(std::uint64_t bytes) {
  return std::max<std::uint64_t>(page, (bytes + page - 1) / page * page);
}

Pieces<const std::byte> pieces_of(const Put& item) {
  return item.pieces.empty() ? std::span(&item.data, 1) : item.pieces;
}
Pieces<std::byte> pieces_of(const Get& item) {
  return item.pieces.empty() ? std::span(&item.buffer, 1) : item.pieces;
}

void zero(const Get& item) {
  for (const auto& piece : pieces_of(item)) std::ranges::fill(piece, std::byte{0});
}

// A batch of the caller's, until its last item is answered; then its spans are not looked at any more.
struct Group {
  Op op = Op::get;
  NamespaceId ns = 0;  // as the caller knows it
  Nanos deadline = Nanos::max(), give_up{0};
  Urgency urgency = Urgency::demand;
  std::span<Put> puts;
  std::span<Get> gets;
  std::span<Probe> probes;
  std::size_t next = 0;  // the first that was not sent
  std::size_t open = 0;  // not answered
  std::function<void()> done;

  std::size_t size() const { return puts.size() + gets.size() + probes.size(); }
  Item item(std::size_t i) const;
  // True when that was the last.
  bool answer(std::size_t i, Outcome outcome, std::uint64_t bytes);
  // What comes of an item that the owner never answers.
  Outcome unanswered() const { return deadline == Nanos::max() ? Outcome::failed : Outcome::late; }
};

Item Group::item(std::size_t i) const {
  if (op == Op::get) return {.key = gets[i].key, .bytes = bytes_of(pieces_of(gets[i]))};
  if (op != Op::put) return {.key = probes[i].key};
  const Put& put = puts[i];
  return {.key = put.key,
          .bytes = bytes_of(pieces_of(put)),
          .parent = put.parent,
          .attributes = put.attributes,
          .extents = {put.extents.begin(), put.extents.end()},
          .hints = put.hints};
}

bool Group::answer(std::size_t i, Outcome outcome, std::uint64_t bytes) {
  if (op == Op::put) {
    puts[i].outcome = outcome;
  } else if (op == Op::get) {
    gets[i].outcome = outcome;
    gets[i].bytes = outcome == Outcome::hit ? bytes : 0;
    if (outcome == Outcome::failed || outcome == Outcome::corrupt) zero(gets[i]);
  } else {
    probes[i].outcome = outcome;
  }
  return --open == 0;
}

using Asked = std::promise<Result<Reply>>;

class RemoteStore final : public Store, public StoreHost {
 public:
  RemoteStore(AttachSettings settings, const Clock& clock, TagQueue tags)
      : settings_(std::move(settings)), clock_(clock), tags_(std::move(tags)) {}
  ~RemoteStore() override;
  Status start(std::unique_ptr<Executor> executor);

  Store& store() override { return *this; }
  void submit(NamespaceId ns, std::span<Put> items, const Batch& batch, std::function<void()> done) override;
  void submit(NamespaceId ns, std::span<Get> items, const Batch& batch, std::function<void()> done) override;
  void stage(NamespaceId ns, std::span<Probe> items, const Batch& batch, std::function<void()> done) override;
  void announce(std::uint64_t tag) override { tags_.push(tag); }
  int event_fd() const override { return tags_.fd(); }
  std::size_t drain(std::span<std::uint64_t> tags) override { return tags_.drain(tags); }
  void settle() override;

  Result<NamespaceId> open_namespace(const NamespaceFields& fields) override;
  std::vector<NamespaceFacts> namespaces() override;
  Status erase_namespace(NamespaceId ns) override;
  void poll() override {}
  void wait(Nanos until) override;
  Nanos now() const override { return clock_.now(); }
  void put(NamespaceId ns, std::span<Put> items, const Batch& batch) override { waited(ns, items, batch); }
  void get(NamespaceId ns, std::span<Get> items, const Batch& batch) override { waited(ns, items, batch); }
  void exists(NamespaceId ns, std::span<Probe> items) override { probe(Op::exists, ns, items, Outcome::miss); }
  void erase(NamespaceId ns, std::span<Probe> items) override { probe(Op::erase, ns, items, Outcome::failed); }
  std::size_t longest_prefix(NamespaceId ns, std::span<const std::span<const std::byte>> keys) override;
  void pin(NamespaceId ns, std::span<Probe> items) override { probe(Op::pin, ns, items, Outcome::failed); }
  void unpin(NamespaceId ns, std::span<const std::span<const std::byte>> keys) override;
  Status pin_named(NamespaceId ns, std::string_view name, std::span<Probe> items) override;
  Status unpin_named(NamespaceId ns, std::string_view name) override;
  std::vector<PinFacts> named_pins() override;
  Status flush() override;
  Status list(NamespaceId ns, const std::function<bool(const BlockFacts&)>& each) override;
  Result<VerifyReport> verify(const std::function<void(const VerifyReport&)>& progress) override;
  StoreStats stats() const override;

 private:
  struct Slot {
    std::uint64_t offset = 0, bytes = 0;
  };
  // A request at the owner. Without group and question once nobody waits any more; its slots are the owner's still.
  struct Sent {
    std::shared_ptr<Group> group;
    std::size_t first = 0;
    std::vector<Slot> slots;
    std::shared_ptr<Asked> asked;
    Nanos give_up{0};
  };
  struct Connection {
    Connection(Socket connected, SharedMemory shared)
        : socket(std::move(connected)), memory(std::move(shared)), free(memory.bytes().size()) {}
    Socket socket;
    SharedMemory memory;
    Ranges free;
    std::unordered_map<std::uint64_t, Sent> sent;
    std::deque<std::vector<std::byte>> outbox;
    bool writing = false;
  };
  struct Space {
    NamespaceFields fields;
    NamespaceId remote = 0;
  };
  // A namespace as the owner knows it, on the connection of that number.
  struct Place {
    NamespaceId ns = 0;
    std::uint64_t connection = 0;
  };
  static constexpr std::size_t queues = 3;  // demand, staged, puts

  // On the loop.
  net::awaitable<void> live();
  net::awaitable<Result<std::shared_ptr<Connection>>> connect();
  net::awaitable<Status> introduce(Connection& connection);
  net::awaitable<Result<Reply>> exchange(Socket& socket, const std::vector<std::byte>& frame);
  net::awaitable<Result<Reply>> read_reply(Socket& socket);
  net::awaitable<void> read_replies(Connection& connection);
  net::awaitable<void> write_out(std::shared_ptr<Connection> connection);
  net::awaitable<void> watch();
  void enqueue(const std::shared_ptr<Group>& group);
  void pump();
  bool send_some(const std::shared_ptr<Group>& group);
  bool place(Group& group, std::size_t i, Request& request, Sent& sent);
  void send(std::vector<std::byte> frame);
  void heard(Connection& connection, const Reply& reply);
  void answer(const std::shared_ptr<Group>& group, std::size_t i, Outcome outcome, std::uint64_t bytes = 0);
  void finish(const Group& group);
  void lost();
  void expire();
  void stop();

  // From any thread.
  std::optional<Place> place_of(NamespaceId ns);
  std::uint64_t connection_now();
  Result<Reply> ask(Request request, std::uint64_t connection, Nanos patience);
  Result<Reply> ask(Op op, NamespaceId ns, std::span<const std::span<const std::byte>> keys, Nanos patience);
  void probe(Op op, NamespaceId ns, std::span<Probe> items, Outcome otherwise);
  void hand_in(const std::shared_ptr<Group>& group, const Batch& batch, std::function<void()> done);
  template <typename Kind>
  void waited(NamespaceId ns, std::span<Kind> items, const Batch& batch) {
    static_cast<StoreHost&>(*this).submit(ns, items, batch).wait();
  }

  const AttachSettings settings_;
  const Clock& clock_;
  TagQueue tags_;

  std::mutex mutex_;  // guards these five
  std::condition_variable answered_;
  std::uint64_t under_way_ = 0, answers_ = 0;  // batches
  std::vector<Space> spaces_;
  std::uint64_t connection_number_ = 0;

  net::io_context loop_{1};
  net::executor_work_guard<net::io_context::executor_type> busy_ = net::make_work_guard(loop_);
  // On the loop alone.
  std::shared_ptr<Connection> connection_;
  std::array<std::deque<std::shared_ptr<Group>>, queues> waiting_;
  std::uint64_t last_id_ = 0;
  net::steady_timer pause_{loop_}, tick_{loop_};
  bool watching_ = false, stopping_ = false;
  std::optional<std::promise<Status>> first_ = std::promise<Status>();

  std::unique_ptr<Executor> executor_;  // goes first
};

Status RemoteStore::start(std::unique_ptr<Executor> executor) {
  auto connected = first_->get_future();
  net::co_spawn(loop_, live(), net::detached);
  executor_ = std::move(executor);
  executor_->post([this] { loop_.run(); });
  return connected.get();
}

RemoteStore::~RemoteStore() {
  {
    std::unique_lock lock(mutex_);
    answered_.wait_for(lock, close_patience, [this] { return under_way_ == 0; });
  }
  net::post(loop_, [this] { stop(); });
  busy_.reset();
  executor_.reset();
}

void RemoteStore::stop() {
  stopping_ = true;
  pause_.cancel();
  tick_.cancel();
  error_code ignored;
  if (connection_ != nullptr) connection_->socket.close(ignored);
  lost();
}

// --- the connection

net::awaitable<void> RemoteStore::live() {
  while (!stopping_) {
    auto connection = co_await connect();
    const bool connected = connection.has_value();
    if (first_) {
      const Status status = connected ? Status{} : fail(connection.error());
      first_->set_value(status);
      first_.reset();
      if (!connected) co_return;
    } else if (connected && settings_.report) {
      settings_.report(settings_.socket + ": the owner of the store is there again");
    }
    if (connected && !stopping_) {
      connection_ = *connection;
      pump();
      co_await read_replies(**connection);
      if (!stopping_ && settings_.report) {
        settings_.report(settings_.socket + ": the owner of the store is gone; all is a miss until it is back");
      }
      lost();
    }
    if (stopping_) co_return;
    pause_.expires_after(reconnect_pause);
    co_await pause_.async_wait(as_values);
  }
}

net::awaitable<Result<std::shared_ptr<RemoteStore::Connection>>> RemoteStore::connect() {
  if (settings_.socket.size() >= sizeof(sockaddr_un::sun_path)) {
    co_return fail(Code::invalid, "{}: is too long a name for a socket", settings_.socket);
  }
  Socket socket(loop_);
  error_code error;
  socket.connect(net::local::stream_protocol::endpoint(settings_.socket), error);
  if (error) co_return fail(Code::not_found, "{}: nobody answers: {}", settings_.socket, error.message());
  auto memory = SharedMemory::create(whole_pages(settings_.buffer_bytes));
  if (!memory) co_return fail(std::move(memory.error()));
  auto connection = std::make_shared<Connection>(std::move(socket), std::move(*memory));
  net::steady_timer patience(loop_, connect_time_max);
  patience.async_wait([connection](error_code ended) {
    error_code ignored;
    if (!ended) connection->socket.close(ignored);
  });
  const Status known = co_await introduce(*connection);
  patience.cancel();
  if (!known) co_return fail(known.error());
  co_return connection;
}

// Says who this is, and opens the namespaces that it uses.
net::awaitable<Status> RemoteStore::introduce(Connection& connection) {
  if (auto sent = connection.memory.send(connection.socket.native_handle(), greeting()); !sent) co_return sent;
  const auto welcome = co_await read_reply(connection.socket);
  if (!welcome) co_return fail(welcome.error());
  if (welcome->error) co_return fail(*welcome->error);
  std::vector<Space> spaces;
  {
    const std::lock_guard lock(mutex_);
    spaces = spaces_;
  }
  for (Space& space : spaces) {
    const Request request{.op = Op::open_namespace, .fields = space.fields};
    std::vector<std::byte> frame = encode(request);  // with a name: GCC 12 frees temporaries beside a co_await twice
    const auto opened = co_await exchange(connection.socket, frame);
    if (!opened) co_return fail(opened.error());
    if (opened->error) co_return fail(*opened->error);
    space.remote = static_cast<NamespaceId>(opened->value);
  }
  const std::lock_guard lock(mutex_);
  std::ranges::copy(spaces, spaces_.begin());
  ++connection_number_;
  co_return Status{};
}

net::awaitable<Result<Reply>> RemoteStore::exchange(Socket& socket, const std::vector<std::byte>& frame) {
  const auto [error, sent] = co_await net::async_write(socket, net::buffer(frame), as_values);
  if (error) co_return fail(Code::retry, "{}: {}", settings_.socket, error.message());
  co_return co_await read_reply(socket);
}

net::awaitable<Result<Reply>> RemoteStore::read_reply(Socket& socket) {
  std::array<std::byte, length_bytes> head{};
  auto [error, got] = co_await net::async_read(socket, net::buffer(head), as_values);
  const auto size = load_le<std::uint32_t>(head, 0);
  if (!error && size > frame_bytes_max) co_return fail(Code::corrupt, "{}: an answer too long", settings_.socket);
  std::vector<std::byte> body(error ? 0 : size);
  if (!error) std::tie(error, got) = co_await net::async_read(socket, net::buffer(body), as_values);
  if (error) co_return fail(Code::retry, "{}: {}", settings_.socket, error.message());
  co_return decode_reply(body);
}

net::awaitable<void> RemoteStore::read_replies(Connection& connection) {
  while (connection.socket.is_open()) {
    const auto reply = co_await read_reply(connection.socket);
    if (!reply) break;
    heard(connection, *reply);
  }
  error_code ignored;
  connection.socket.close(ignored);
}

void RemoteStore::send(std::vector<std::byte> frame) {
  connection_->outbox.push_back(std::move(frame));
  if (connection_->writing) return;
  connection_->writing = true;
  net::co_spawn(loop_, write_out(connection_), net::detached);
}

net::awaitable<void> RemoteStore::write_out(std::shared_ptr<Connection> connection) {
  while (!connection->outbox.empty()) {
    const auto [error, sent] =
        co_await net::async_write(connection->socket, net::buffer(connection->outbox.front()), as_values);
    if (error) {
      error_code ignored;
      connection->socket.close(ignored);
      break;
    }
    connection->outbox.pop_front();
  }
  connection->writing = false;
}

// --- batches

void RemoteStore::submit(NamespaceId ns, std::span<Put> items, const Batch& batch, std::function<void()> done) {
  auto group = std::make_shared<Group>();
  *group = {.op = Op::put, .ns = ns, .puts = items};
  hand_in(group, batch, std::move(done));
}

void RemoteStore::submit(NamespaceId ns, std::span<Get> items, const Batch& batch, std::function<void()> done) {
  auto group = std::make_shared<Group>();
  *group = {.op = Op::get, .ns = ns, .gets = items};
  hand_in(group, batch, std::move(done));
}

void RemoteStore::stage(NamespaceId ns, std::span<Probe> items, const Batch& batch, std::function<void()> done) {
  auto group = std::make_shared<Group>();
  *group = {.op = Op::stage, .ns = ns, .probes = items};
  hand_in(group, batch, std::move(done));
}

void RemoteStore::hand_in(const std::shared_ptr<Group>& group, const Batch& batch, std::function<void()> done) {
  group->deadline = batch.deadline;
  group->urgency = batch.urgency;
  group->open = group->size();
  group->done = std::move(done);
  const Nanos now = clock_.now();
  group->give_up = batch.deadline == Nanos::max() ? now + settings_.patience
                                                  : std::min(batch.deadline, Nanos::max() - grace) + grace;
  {
    const std::lock_guard lock(mutex_);
    ++under_way_;
  }
  net::post(loop_, [this, group] { enqueue(group); });
}

void RemoteStore::answer(const std::shared_ptr<Group>& group, std::size_t i, Outcome outcome, std::uint64_t bytes) {
  if (group->answer(i, outcome, bytes)) finish(*group);
}

// Nothing of the batch is open any more.
void RemoteStore::finish(const Group& group) {
  group.done();
  const std::lock_guard lock(mutex_);
  --under_way_;
  ++answers_;
  answered_.notify_all();
}

void RemoteStore::enqueue(const std::shared_ptr<Group>& group) {
  if (group->size() == 0) return finish(*group);
  const bool read = group->op != Op::put;
  waiting_[read ? (group->urgency == Urgency::demand ? 0 : 1) : 2].push_back(group);
  pump();
  if (watching_ || stopping_) return;
  watching_ = true;
  net::co_spawn(loop_, watch(), net::detached);
}

// Sends what there is room for, reads before puts; answers what cannot be sent.
void RemoteStore::pump() {
  for (auto& queue : waiting_) {
    while (!queue.empty()) {
      const auto group = queue.front();
      while (group->next < group->size()) {
        if (!send_some(group)) return;  // when something is answered there is more room
      }
      queue.pop_front();
    }
  }
}

// One request with as many of the group's items as belong into one. False: there is no room.
bool RemoteStore::send_some(const std::shared_ptr<Group>& group) {
  const auto where = place_of(group->ns);
  if (connection_ == nullptr || !where) {
    const Outcome outcome = group->op == Op::put ? Outcome::rejected : Outcome::failed;
    while (group->next < group->size()) answer(group, group->next++, where ? outcome : Outcome::invalid);
    return true;
  }
  Request request{.op = group->op, .id = ++last_id_, .ns = where->ns, .urgency = group->urgency};
  if (group->deadline != Nanos::max()) request.patience = std::max(group->deadline - clock_.now(), Nanos(1));
  Sent sent{.group = group, .first = group->next, .give_up = group->give_up};
  std::uint64_t bytes = 0;
  while (group->next < group->size() && request.items.size() < frame_items_max && bytes < frame_data_max) {
    if (!place(*group, group->next, request, sent)) break;
    bytes += sent.slots.back().bytes;
    ++group->next;
  }
  if (request.items.empty()) {
    // The first found no room: it waits, or will never find any.
    if (group->op == Op::get || group->item(group->next).bytes <= connection_->memory.bytes().size()) return false;
    answer(group, group->next++, Outcome::invalid);
    return true;
  }
  connection_->sent.emplace(request.id, std::move(sent));
  send(encode(request));
  return true;
}

bool RemoteStore::place(Group& group, std::size_t i, Request& request, Sent& sent) {
  Item item = group.item(i);
  if (group.op == Op::stage) {
    sent.slots.push_back({});
    request.items.push_back(std::move(item));
    return true;
  }
  const auto memory = connection_->memory.bytes();
  if (group.op == Op::get) item.bytes = std::min<std::uint64_t>(item.bytes, memory.size());
  const std::uint64_t bytes = whole_pages(item.bytes);
  const auto offset = connection_->free.take(bytes);
  if (!offset) return false;
  item.offset = *offset;
  sent.slots.push_back({*offset, bytes});
  if (group.op == Op::put) copy_out(pieces_of(group.puts[i]), 0, memory.subspan(*offset, item.bytes));
  request.items.push_back(std::move(item));
  return true;
}

void RemoteStore::heard(Connection& connection, const Reply& reply) {
  const auto found = connection.sent.find(reply.id);
  if (found == connection.sent.end()) return;
  const Sent sent = std::move(found->second);
  connection.sent.erase(found);
  if (sent.asked != nullptr) sent.asked->set_value(reply);
  const bool whole = reply.items.size() == sent.slots.size();
  for (std::size_t i = 0; i < sent.slots.size(); ++i) {
    const Slot slot = sent.slots[i];
    if (sent.group != nullptr) {
      auto [outcome, bytes] = whole ? reply.items[i] : Reply::One{Outcome::failed, 0};
      if (outcome == Outcome::hit && sent.group->op == Op::get) {
        const Get& get = sent.group->gets[sent.first + i];
        if (bytes > slot.bytes || bytes > bytes_of(pieces_of(get))) {
          outcome = Outcome::invalid;
        } else {
          copy_in(connection.memory.bytes().subspan(slot.offset, bytes), pieces_of(get), 0);
        }
      }
      answer(sent.group, sent.first + i, outcome, bytes);
    }
    if (slot.bytes > 0) connection.free.give_back(slot.offset, slot.bytes);
  }
  pump();
}

// The connection is gone: what was at the owner, or waits for it, has failed.
void RemoteStore::lost() {
  const auto gone = std::move(connection_);
  connection_ = nullptr;
  if (gone != nullptr) {
    for (auto& [id, sent] : gone->sent) {
      if (sent.asked != nullptr) {
        sent.asked->set_value(fail(Code::retry, "{}: the owner of the store is gone", settings_.socket));
      }
      for (std::size_t i = 0; sent.group != nullptr && i < sent.slots.size(); ++i) {
        answer(sent.group, sent.first + i, Outcome::failed);
      }
    }
    gone->sent.clear();
  }
  pump();
}

// Answers what has waited too long, here or at the owner.
void RemoteStore::expire() {
  const Nanos now = clock_.now();
  for (auto& queue : waiting_) {
    for (const auto& group : queue) {
      while (group->next < group->size() && now >= std::min(group->deadline, group->give_up)) {
        answer(group, group->next++, group->unanswered());
      }
    }
    std::erase_if(queue, [](const auto& group) { return group->next == group->size(); });
  }
  if (connection_ == nullptr) return;
  for (auto& [id, sent] : connection_->sent) {
    if (sent.group == nullptr || now < sent.give_up) continue;
    const auto group = std::move(sent.group);
    sent.group = nullptr;
    for (std::size_t i = 0; i < sent.slots.size(); ++i) answer(group, sent.first + i, group->unanswered());
  }
}

net::awaitable<void> RemoteStore::watch() {
  const auto idle = [this] {
    const std::lock_guard lock(mutex_);
    return under_way_ == 0;
  };
  while (!stopping_ && !idle()) {
    tick_.expires_after(look_again);
    co_await tick_.async_wait(as_values);
    expire();
  }
  watching_ = false;
}

void RemoteStore::settle() {
  std::unique_lock lock(mutex_);
  answered_.wait(lock, [this] { return under_way_ == 0; });
}

void RemoteStore::wait(Nanos until) {
  std::unique_lock lock(mutex_);
  const std::uint64_t before = answers_;
  answered_.wait_for(lock, until - clock_.now(), [&] { return answers_ != before; });
}

// --- questions that are waited for

std::optional<RemoteStore::Place> RemoteStore::place_of(NamespaceId ns) {
  const std::lock_guard lock(mutex_);
  if (ns >= spaces_.size()) return std::nullopt;
  return Place{.ns = spaces_[ns].remote, .connection = connection_number_};
}

Result<Reply> RemoteStore::ask(Request request, std::uint64_t connection, Nanos patience) {
  auto asked = std::make_shared<Asked>();
  auto answer = asked->get_future();
  // What it points to is the caller's, who may have left before it is sent: it is encoded here, its number is set
  // there.
  auto frame = std::make_shared<std::vector<std::byte>>(encode(request));
  net::post(loop_, [this, asked, frame, connection] {
    if (connection_ == nullptr || connection_now() != connection) {
      asked->set_value(fail(Code::retry, "{}: the owner of the store is gone", settings_.socket));
      return;
    }
    const std::uint64_t id = ++last_id_;
    set_id(*frame, id);
    connection_->sent.emplace(id, Sent{.asked = asked});
    send(std::move(*frame));
  });
  if (answer.wait_for(patience) != std::future_status::ready) {
    return fail(Code::retry, "{}: the owner of the store does not answer", settings_.socket);
  }
  auto reply = answer.get();
  if (reply && reply->error) return fail(std::move(*reply->error));
  return reply;
}

Result<Reply> RemoteStore::ask(Op op, NamespaceId ns, std::span<const std::span<const std::byte>> keys,
                               Nanos patience) {
  const auto where = place_of(ns);
  if (!where) return fail(Code::invalid, "namespace {} is not open", ns);
  Request request{.op = op, .ns = where->ns};
  for (const auto& key : keys) request.items.push_back({.key = key});
  return ask(std::move(request), where->connection, patience);
}

void RemoteStore::probe(Op op, NamespaceId ns, std::span<Probe> items, Outcome otherwise) {
  for (std::size_t from = 0; from < items.size(); from += items_max) {
    const auto some = items.subspan(from, std::min(items_max, items.size() - from));
    std::vector<std::span<const std::byte>> keys;
    keys.reserve(some.size());
    for (const Probe& item : some) keys.push_back(item.key);
    const auto reply = ask(op, ns, keys, settings_.patience);
    const bool whole = reply && reply->items.size() == some.size();
    for (std::size_t i = 0; i < some.size(); ++i) some[i].outcome = whole ? reply->items[i].outcome : otherwise;
  }
}

std::size_t RemoteStore::longest_prefix(NamespaceId ns, std::span<const std::span<const std::byte>> keys) {
  std::size_t all = 0;
  for (std::size_t from = 0; from < keys.size(); from += items_max) {
    const auto some = keys.subspan(from, std::min(items_max, keys.size() - from));
    const auto reply = ask(Op::longest_prefix, ns, some, settings_.patience);
    const std::size_t there = reply ? std::min<std::size_t>(reply->value, some.size()) : 0;
    all += there;
    if (there < some.size()) break;
  }
  return all;
}

void RemoteStore::unpin(NamespaceId ns, std::span<const std::span<const std::byte>> keys) {
  for (std::size_t from = 0; from < keys.size(); from += items_max) {
    // Where it cannot be said, the owner lets go by itself when the connection ends.
    (void)ask(Op::unpin, ns, keys.subspan(from, std::min(items_max, keys.size() - from)), settings_.patience);
  }
}

Status RemoteStore::pin_named(NamespaceId ns, std::string_view name, std::span<Probe> items) {
  const auto where = place_of(ns);
  if (!where) return fail(Code::invalid, "namespace {} is not open", ns);
  for (std::size_t from = 0; from < items.size(); from += items_max) {
    const auto some = items.subspan(from, std::min(items_max, items.size() - from));
    Request request{.op = Op::pin_named, .ns = where->ns, .name = std::string(name)};
    for (const Probe& item : some) request.items.push_back({.key = item.key});
    const auto reply = ask(std::move(request), where->connection, long_patience);
    if (!reply) return fail(reply.error());
    if (reply->items.size() != some.size()) return fail(Code::corrupt, "{}: half an answer", settings_.socket);
    for (std::size_t i = 0; i < some.size(); ++i) some[i].outcome = reply->items[i].outcome;
  }
  return {};
}

Status RemoteStore::unpin_named(NamespaceId ns, std::string_view name) {
  const auto where = place_of(ns);
  if (!where) return fail(Code::invalid, "namespace {} is not open", ns);
  const auto reply =
      ask({.op = Op::unpin_named, .ns = where->ns, .name = std::string(name)}, where->connection, long_patience);
  return reply ? Status{} : fail(reply.error());
}

std::vector<PinFacts> RemoteStore::named_pins() {
  auto reply = ask({.op = Op::named_pins}, connection_now(), settings_.patience);
  std::vector<PinFacts> ours;
  if (!reply) return ours;
  const std::lock_guard lock(mutex_);
  for (PinFacts& pin : reply->pins) {
    const auto known = std::ranges::find(spaces_, pin.ns, &Space::remote);
    if (known == spaces_.end()) continue;
    pin.ns = static_cast<NamespaceId>(known - spaces_.begin());
    ours.push_back(std::move(pin));
  }
  return ours;
}

std::uint64_t RemoteStore::connection_now() {
  const std::lock_guard lock(mutex_);
  return connection_number_;
}

Status RemoteStore::flush() {
  const auto reply = ask({.op = Op::flush}, connection_now(), long_patience);
  return reply ? Status{} : fail(reply.error());
}

Status RemoteStore::erase_namespace(NamespaceId ns) {
  const auto reply = ask(Op::erase_namespace, ns, {}, long_patience);
  return reply ? Status{} : fail(reply.error());
}

Result<NamespaceId> RemoteStore::open_namespace(const NamespaceFields& fields) {
  const std::uint64_t connection = connection_now();
  const auto reply = ask({.op = Op::open_namespace, .fields = fields}, connection, settings_.patience);
  if (!reply) return fail(reply.error());
  const auto remote = static_cast<NamespaceId>(reply->value);
  const std::lock_guard lock(mutex_);
  if (connection != connection_number_) return fail(Code::retry, "{}: the owner was started anew", settings_.socket);
  const auto known = std::ranges::find(spaces_, remote, &Space::remote);
  if (known != spaces_.end()) return static_cast<NamespaceId>(known - spaces_.begin());
  spaces_.push_back({fields, remote});
  return static_cast<NamespaceId>(spaces_.size() - 1);
}

// --- questions that the owner's control socket answers

std::vector<NamespaceFacts> RemoteStore::namespaces() {
  auto told = ask_owner_stats(settings_.control);
  if (!told) return {};
  std::vector<NamespaceFacts> ours;
  const std::lock_guard lock(mutex_);
  for (NamespaceFacts& one : told->namespaces) {
    const auto known = std::ranges::find(spaces_, one.id, &Space::remote);
    if (known != spaces_.end())
      ours.push_back({static_cast<NamespaceId>(known - spaces_.begin()), std::move(one.text)});
  }
  return ours;
}

Status RemoteStore::list(NamespaceId ns, const std::function<bool(const BlockFacts&)>& each) {
  const auto where = place_of(ns);
  if (!where) return fail(Code::invalid, "namespace {} is not open", ns);
  return ask_owner_list(settings_.control, where->ns, each);
}

Result<VerifyReport> RemoteStore::verify(const std::function<void(const VerifyReport&)>& progress) {
  return ask_owner_verify(settings_.control, progress);
}

StoreStats RemoteStore::stats() const {
  const auto told = ask_owner_stats(settings_.control);
  return told ? told->stats : StoreStats{};
}

}  // namespace

Result<std::unique_ptr<StoreHost>> attach_store(AttachSettings settings, const Clock& clock,
                                                std::unique_ptr<Executor> executor) {
  auto tags = TagQueue::create();
  if (!tags) return fail(std::move(tags.error()));
  auto store = std::make_unique<RemoteStore>(std::move(settings), clock, std::move(*tags));
  if (auto started = store->start(std::move(executor)); !started) return fail(std::move(started.error()));
  return store;
}

}  // namespace artesian
