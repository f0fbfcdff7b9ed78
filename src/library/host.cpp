#include "library/host.h"

#include <utility>

namespace artesian {

Result<std::unique_ptr<Host>> Host::make(std::unique_ptr<Store> store, std::unique_ptr<Executor> executor) {
  auto tags = TagQueue::create();
  if (!tags) return fail(std::move(tags.error()));
  std::unique_ptr<Host> host(new Host(std::move(store), std::move(*tags)));
  host->executor_ = std::move(executor);
  host->executor_->post([made = host.get()] { made->work(); });
  return host;
}

Status Host::answer_at(const std::string& socket, std::unique_ptr<Executor> executor) {
  auto control = ControlServer::start(*store_, socket, std::move(executor));
  if (!control) return fail(std::move(control.error()));
  control_ = std::move(*control);
  return {};
}

Status Host::take_clients(const std::string& socket, std::unique_ptr<Executor> executor) {
  auto clients = AttachServer::start(*this, socket, std::move(executor));
  if (!clients) return fail(std::move(clients.error()));
  clients_ = std::move(*clients);
  return {};
}

Status Host::serve_metrics(const std::string& address) {
  auto metrics = MetricsEndpoint::serve(*store_, address);
  if (!metrics) return fail(std::move(metrics.error()));
  metrics_ = std::move(*metrics);
  return {};
}

Host::~Host() {
  clients_.reset();
  metrics_.reset();
  control_.reset();
  std::unique_lock lock(mutex_);
  stopping_ = true;
  wanted_.notify_all();
  ended_.wait(lock, [&] { return stopped_; });
}

// The thread: sleeps while nothing is under way, and moves I/O on while something is.
void Host::work() {
  constexpr Nanos slice = std::chrono::milliseconds(100);
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_.wait(lock, [&] { return under_way_ > 0 || stopping_; });
    if (under_way_ == 0) break;
    lock.unlock();
    store_->wait(store_->now() + slice);
    lock.lock();
  }
  stopped_ = true;
  ended_.notify_all();
}

std::function<void()> Host::counted(std::function<void()> done) {
  const std::lock_guard lock(mutex_);
  ++under_way_;
  wanted_.notify_one();
  return [this, done = std::move(done)] {
    done();
    const std::lock_guard ended(mutex_);
    if (--under_way_ == 0) settled_.notify_all();
  };
}

void Host::settle() {
  std::unique_lock lock(mutex_);
  settled_.wait(lock, [&] { return under_way_ == 0; });
}

void Host::submit(NamespaceId ns, std::span<Put> items, const Batch& batch, std::function<void()> done) {
  store_->submit(ns, items, batch, counted(std::move(done)));
}

void Host::submit(NamespaceId ns, std::span<Get> items, const Batch& batch, std::function<void()> done) {
  store_->submit(ns, items, batch, counted(std::move(done)));
}

void Host::stage(NamespaceId ns, std::span<Probe> items, const Batch& batch, std::function<void()> done) {
  store_->stage(ns, items, batch, counted(std::move(done)));
}

}  // namespace artesian
