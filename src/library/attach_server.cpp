#include "library/attach_server.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>

#include "base/little_endian.h"
#include "platform/local_socket.h"
#include "platform/shared_memory.h"
#include "wire/attach_wire.h"

namespace artesian {
namespace {

namespace net = boost::asio;
using namespace attach;
using boost::system::error_code;
using Socket = net::local::stream_protocol::socket;
using Strand = net::strand<net::io_context::executor_type>;

constexpr auto as_values = net::as_tuple(net::use_awaitable);
constexpr auto greeting_time_max = std::chrono::seconds(10);
constexpr std::size_t outbox_bytes_max = 64 * MiB;  // of a client that reads nothing

// How many clients there are; outlives what belongs to them.
struct Census {
  std::mutex mutex;
  std::condition_variable fewer;
  std::size_t clients = 0;
};

// One that is counted there already, until this goes.
struct Counted {
  explicit Counted(Census& all) : census(all) {}
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() {
    const std::lock_guard lock(census.mutex);
    --census.clients;
    census.fewer.notify_all();
  }
  Census& census;
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(StoreHost& host, Socket socket, Strand strand, Census& census)
      : counted_(census), host_(host), socket_(std::move(socket)), strand_(std::move(strand)), room_(strand_) {}
  ~Session();

  net::awaitable<void> run();
  void end();  // from any thread

 private:
  // What the store works on, until it is answered. `made` points into `frame`.
  template <typename Kind>
  struct Work {
    std::shared_ptr<Session> session;  // goes last: the memory is its
    std::vector<std::byte> frame;
    Request request;
    std::vector<Kind> items;
  };

  net::awaitable<Status> greet();
  net::awaitable<bool> read_frame(std::vector<std::byte>& body);
  net::awaitable<void> write_out();
  bool serve(std::vector<std::byte> body);  // false: no request
  Reply answer_at_once(const Request& request);
  void open_namespace(const Request& request, Reply& reply);
  void pin(const Request& request, std::span<const Probe> items);
  std::vector<std::span<const std::byte>> unpin(const Request& request);
  void send(const Reply& reply);
  template <typename Kind>
  std::shared_ptr<Work<Kind>> work(std::vector<std::byte> body, Request request);
  template <typename Kind>
  std::function<void()> answered(const std::shared_ptr<Work<Kind>>& work);
  Batch way(const Request& request) const;
  // What of an item lies in the shared memory: of a get whole pages, which the client has room for, since the drive
  // writes no less.
  static std::uint64_t bytes_in_memory(const Request& request, const Item& item);
  bool all_inside(const Request& request) const;

  Counted counted_;  // goes last: the server goes once nobody is counted, and its loop with it
  StoreHost& host_;
  Socket socket_;
  Strand strand_;
  SharedMemory memory_;
  std::set<NamespaceId> spaces_;                                                  // those it opened
  std::map<std::pair<NamespaceId, std::vector<std::byte>>, std::uint64_t> pins_;  // how often
  std::deque<std::vector<std::byte>> outbox_;
  std::size_t outbox_bytes_ = 0;
  bool writing_ = false;
  std::size_t under_way_ = 0;
  net::steady_timer room_;  // cancelled when there is room for more under way
};

Session::~Session() {
  for (const auto& [name, count] : pins_) {
    const std::span<const std::byte> key = name.second;
    for (std::uint64_t i = 0; i < count; ++i) host_.store().unpin(name.first, std::span(&key, 1));
  }
}

void Session::end() {
  net::post(strand_, [self = shared_from_this()] {
    error_code ignored;
    self->socket_.close(ignored);
    self->room_.cancel();
  });
}

// NOLINTNEXTLINE(readability-static-accessed-through-instance)
net::awaitable<Status> Session::greet() {
  net::steady_timer patience(strand_, greeting_time_max);
  patience.async_wait([self = shared_from_this()](error_code error) {
    error_code ignored;
    if (!error) self->socket_.cancel(ignored);
  });
  const auto [error] = co_await socket_.async_wait(Socket::wait_read, as_values);
  patience.cancel();
  if (error) co_return fail(Code::retry, "no greeting");
  Greeting heard{};
  auto memory = SharedMemory::receive(socket_.native_handle(), heard);
  if (auto known = check_greeting(heard); memory && !known) co_return known;
  if (!memory) co_return fail(std::move(memory.error()));
  if (memory->bytes().size() > AttachServer::memory_bytes_max) {
    co_return fail(Code::rejected, "{} bytes of shared memory, {} are possible", memory->bytes().size(),
                   AttachServer::memory_bytes_max);
  }
  memory_ = std::move(*memory);
  co_return Status{};
}

net::awaitable<bool> Session::read_frame(std::vector<std::byte>& body) {
  std::array<std::byte, length_bytes> head{};
  const auto [none, length] = co_await net::async_read(socket_, net::buffer(head), as_values);
  if (none) co_return false;
  const auto size = load_le<std::uint32_t>(head, 0);
  if (size > frame_bytes_max) co_return false;
  body.resize(size);
  const auto [error, got] = co_await net::async_read(socket_, net::buffer(body), as_values);
  co_return !error;
}

net::awaitable<void> Session::run() {
  const auto self = shared_from_this();
  const auto greeted = co_await greet();
  if (greeted) {
    send({.id = 0});
    std::vector<std::byte> body;
    for (;;) {
      const bool whole = co_await read_frame(body);
      if (!whole || !serve(std::move(body))) break;
      while (under_way_ > AttachServer::under_way_max && socket_.is_open()) {
        room_.expires_at(net::steady_timer::time_point::max());
        co_await room_.async_wait(as_values);
      }
      body = {};
    }
  } else if (greeted.error().code != Code::retry) {
    send({.id = 0, .error = greeted.error()});
    while (writing_ && socket_.is_open()) {  // so that it hears why
      room_.expires_after(std::chrono::milliseconds(10));
      co_await room_.async_wait(as_values);
    }
  }
  error_code ignored;
  socket_.close(ignored);
}

Batch Session::way(const Request& request) const {
  Batch batch{.urgency = request.urgency};
  if (request.patience > Nanos(0)) {
    const Nanos now = host_.store().now();
    batch.deadline = request.patience < Nanos::max() - now ? now + request.patience : Nanos::max();
  }
  return batch;
}

std::uint64_t Session::bytes_in_memory(const Request& request, const Item& item) {
  if (request.op == Op::put) return item.bytes;
  return request.op == Op::get ? (item.bytes + page - 1) / page * page : 0;
}

bool Session::all_inside(const Request& request) const {
  const std::uint64_t all = memory_.bytes().size();
  return std::ranges::all_of(request.items, [&](const Item& item) {
    return item.bytes <= all && item.offset <= all && item.offset % page == 0 &&
           bytes_in_memory(request, item) <= all - item.offset;
  });
}

template <typename Kind>
std::shared_ptr<Session::Work<Kind>> Session::work(std::vector<std::byte> body, Request request) {
  // The request's spans stay good: a moved vector keeps its bytes where they are.
  auto made = std::make_shared<Work<Kind>>(shared_from_this(), std::move(body), std::move(request));
  under_way_ += made->request.items.size();
  made->items.reserve(made->request.items.size());
  for (const Item& item : made->request.items) {
    const auto data = memory_.bytes().subspan(item.offset, bytes_in_memory(made->request, item));
    if constexpr (std::is_same_v<Kind, Put>) {
      made->items.push_back({.key = item.key,
                             .parent = item.parent,
                             .attributes = item.attributes,
                             .data = data,
                             .extents = item.extents,
                             .hints = item.hints});
    } else if constexpr (std::is_same_v<Kind, Get>) {
      made->items.push_back({.key = item.key, .buffer = data});
    } else {
      made->items.push_back({.key = item.key});
    }
  }
  return made;
}

template <typename Kind>
std::function<void()> Session::answered(const std::shared_ptr<Work<Kind>>& work) {
  return [work] {
    Reply reply{.id = work->request.id};
    for (const Kind& item : work->items) {
      if constexpr (std::is_same_v<Kind, Get>) {
        reply.items.push_back({item.outcome, item.bytes});
      } else {
        reply.items.push_back({item.outcome, 0});
      }
    }
    Session& session = *work->session;
    net::post(session.strand_, [work, reply = std::move(reply)] {
      Session& at = *work->session;
      at.under_way_ -= work->items.size();
      at.room_.cancel();
      at.send(reply);
    });
  };
}

bool Session::serve(std::vector<std::byte> body) {
  auto decoded = decode_request(body);
  if (!decoded || !all_inside(*decoded)) return false;
  const Op op = decoded->op;
  const bool of_all = op == Op::open_namespace || op == Op::flush || op == Op::named_pins;
  if (!of_all && !spaces_.contains(decoded->ns)) {
    send({.id = decoded->id,
          .error = Error{Code::invalid, fmt::format("namespace {} was not opened by this client", decoded->ns)},
          .items = std::vector<Reply::One>(decoded->items.size(), {Outcome::invalid, 0})});
    return true;
  }
  const Batch batch = way(*decoded);
  if (op == Op::put) {
    const auto made = work<Put>(std::move(body), std::move(*decoded));
    host_.submit(made->request.ns, std::span(made->items), batch, answered(made));
  } else if (op == Op::get) {
    const auto made = work<Get>(std::move(body), std::move(*decoded));
    host_.submit(made->request.ns, std::span(made->items), batch, answered(made));
  } else if (op == Op::stage) {
    const auto made = work<Probe>(std::move(body), std::move(*decoded));
    host_.stage(made->request.ns, std::span(made->items), batch, answered(made));
  } else {
    send(answer_at_once(*decoded));
  }
  return true;
}

void Session::open_namespace(const Request& request, Reply& reply) {
  const auto opened = host_.store().open_namespace(request.fields);
  if (!opened) {
    reply.error = opened.error();
    return;
  }
  spaces_.insert(*opened);
  reply.value = *opened;
}

void Session::pin(const Request& request, std::span<const Probe> items) {
  for (const Probe& item : items) {
    if (item.outcome != Outcome::hit) continue;
    ++pins_[{request.ns, std::vector(item.key.begin(), item.key.end())}];
  }
}

// Of the keys those that this client has pinned.
std::vector<std::span<const std::byte>> Session::unpin(const Request& request) {
  std::vector<std::span<const std::byte>> held;
  for (const Item& item : request.items) {
    const auto found = pins_.find({request.ns, std::vector(item.key.begin(), item.key.end())});
    if (found == pins_.end()) continue;
    if (--found->second == 0) pins_.erase(found);
    held.push_back(item.key);
  }
  return held;
}

Reply Session::answer_at_once(const Request& request) {
  Reply reply{.id = request.id};
  Store& store = host_.store();
  const auto probed = [&](const auto& call) {
    std::vector<Probe> items;
    items.reserve(request.items.size());
    for (const Item& item : request.items) items.push_back({.key = item.key});
    call(items);
    for (const Probe& item : items) reply.items.push_back({item.outcome, 0});
    return items;
  };
  const auto probe = [&](void (Store::*call)(NamespaceId, std::span<Probe>)) {
    return probed([&](std::span<Probe> items) { (store.*call)(request.ns, items); });
  };
  const auto told = [&](const Status& status) {
    if (!status) reply.error = status.error();
  };
  switch (request.op) {
    case Op::open_namespace:
      open_namespace(request, reply);
      break;
    case Op::erase_namespace:
      told(store.erase_namespace(request.ns));
      break;
    case Op::flush:
      told(store.flush());
      break;
    case Op::exists:
      probe(&Store::exists);
      break;
    case Op::erase:
      probe(&Store::erase);
      break;
    case Op::pin:
      pin(request, probe(&Store::pin));
      break;
    case Op::unpin:
      store.unpin(request.ns, unpin(request));
      break;
    case Op::pin_named:
      probed([&](std::span<Probe> items) { told(store.pin_named(request.ns, request.name, items)); });
      break;
    case Op::unpin_named:
      told(store.unpin_named(request.ns, request.name));
      break;
    case Op::named_pins:
      for (PinFacts& pin : store.named_pins()) {
        if (spaces_.contains(pin.ns) && reply.pins.size() < pins_max) reply.pins.push_back(std::move(pin));
      }
      break;
    case Op::longest_prefix: {
      std::vector<std::span<const std::byte>> keys;
      keys.reserve(request.items.size());
      for (const Item& item : request.items) keys.push_back(item.key);
      reply.value = store.longest_prefix(request.ns, keys);
      break;
    }
    case Op::put:
    case Op::get:
    case Op::stage:
      break;  // not at once
  }
  return reply;
}

// On the strand.
void Session::send(const Reply& reply) {
  if (!socket_.is_open()) return;
  outbox_.push_back(encode(reply));
  outbox_bytes_ += outbox_.back().size();
  if (outbox_bytes_ > outbox_bytes_max) {
    error_code ignored;
    socket_.close(ignored);
    return;
  }
  if (writing_) return;
  writing_ = true;
  net::co_spawn(strand_, [self = shared_from_this()] { return self->write_out(); }, net::detached);
}

net::awaitable<void> Session::write_out() {
  while (!outbox_.empty()) {
    const auto [error, sent] = co_await net::async_write(socket_, net::buffer(outbox_.front()), as_values);
    if (error) {
      error_code ignored;
      socket_.close(ignored);
      break;
    }
    outbox_bytes_ -= outbox_.front().size();
    outbox_.pop_front();
  }
  writing_ = false;
}

class Server final : public AttachServer {
 public:
  Server(StoreHost& host, LocalListener listener)
      : host_(host), listener_(std::move(listener)), acceptor_(net::make_strand(loop_)) {}
  ~Server() override;
  Status start(std::unique_ptr<Executor> executor);
  std::size_t clients() const override {
    const std::lock_guard lock(census_.mutex);
    return census_.clients;
  }

 private:
  net::awaitable<void> accept();
  bool admit();

  StoreHost& host_;
  LocalListener listener_;
  net::io_context loop_{static_cast<int>(threads)};
  net::executor_work_guard<net::io_context::executor_type> busy_ = net::make_work_guard(loop_);
  net::local::stream_protocol::acceptor acceptor_;
  mutable Census census_;
  std::vector<std::weak_ptr<Session>> sessions_;  // on the acceptor's strand
  std::unique_ptr<Executor> executor_;            // goes first
};

Status Server::start(std::unique_ptr<Executor> executor) {
  const auto fd = listener_.duplicate();
  if (!fd) return fail(fd.error());
  error_code error;
  acceptor_.assign(net::local::stream_protocol(), *fd, error);
  if (error) return fail(Code::rejected, "clients cannot be taken: {}", error.message());
  net::co_spawn(acceptor_.get_executor(), accept(), net::detached);
  executor_ = std::move(executor);
  for (std::size_t i = 0; i < threads; ++i) executor_->post([this] { loop_.run(); });
  return {};
}

Server::~Server() {
  if (executor_ == nullptr) return;
  net::post(acceptor_.get_executor(), [this] {
    error_code ignored;
    acceptor_.close(ignored);
    for (const auto& weak : sessions_) {
      if (const auto session = weak.lock()) session->end();
    }
  });
  {
    std::unique_lock lock(census_.mutex);
    census_.fewer.wait(lock, [this] { return census_.clients == 0; });
  }
  busy_.reset();
  executor_.reset();
}

bool Server::admit() {
  const std::lock_guard lock(census_.mutex);
  if (census_.clients == clients_max) return false;
  ++census_.clients;
  return true;
}

net::awaitable<void> Server::accept() {
  net::steady_timer timer(acceptor_.get_executor());
  while (acceptor_.is_open()) {
    const Strand strand = net::make_strand(loop_);
    auto [error, socket] = co_await acceptor_.async_accept(strand, as_values);
    if (!acceptor_.is_open()) break;
    if (error) {  // out of descriptors, for example: some that are open will end
      timer.expires_after(std::chrono::milliseconds(50));
      co_await timer.async_wait(as_values);
      continue;
    }
    std::erase_if(sessions_, [](const auto& weak) { return weak.expired(); });
    if (!admit()) continue;
    const auto session = std::make_shared<Session>(host_, Socket(std::move(socket)), strand, census_);
    sessions_.push_back(session);
    net::co_spawn(strand, [session] { return session->run(); }, net::detached);
  }
}

}  // namespace

Result<std::unique_ptr<AttachServer>> AttachServer::start(StoreHost& host, const std::string& path,
                                                          std::unique_ptr<Executor> executor) {
  auto listener = LocalListener::open(path);
  if (!listener) return fail(std::move(listener.error()));
  auto server = std::make_unique<Server>(host, std::move(*listener));
  if (auto started = server->start(std::move(executor)); !started) return fail(std::move(started.error()));
  return server;
}

}  // namespace artesian
