// The StoreHost over a store of files: what the C library and the Python module stand on, and the daemon.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "artesian/store_host.h"
#include "base/executor.h"
#include "library/control.h"
#include "library/metrics.h"
#include "platform/event.h"

namespace artesian {

class Host final : public StoreHost {
 public:
  // From now on questions are answered at that socket.
  Status answer_at(const std::string& socket, std::unique_ptr<Executor> executor);

  Status serve_metrics(const std::string& address);
  int metrics_port() const { return metrics_ == nullptr ? 0 : metrics_->port(); }

  // `executor` lends one thread until the host goes, for no more than the host.
  static Result<std::unique_ptr<Host>> make(std::unique_ptr<Store> store, std::unique_ptr<Executor> executor);
  ~Host() override;

  Store& store() override { return *store_; }
  void submit(NamespaceId ns, std::span<Put> items, const Batch& batch, std::function<void()> done) override;
  void submit(NamespaceId ns, std::span<Get> items, const Batch& batch, std::function<void()> done) override;
  void stage(NamespaceId ns, std::span<Probe> items, const Batch& batch, std::function<void()> done) override;
  void announce(std::uint64_t tag) override;
  int event_fd() const override { return event_.fd(); }
  std::size_t drain(std::span<std::uint64_t> tags) override;
  void settle() override;

 private:
  Host(std::unique_ptr<Store> store, Event event) : store_(std::move(store)), event_(std::move(event)) {}
  void work();
  std::function<void()> counted(std::function<void()> done);

  std::unique_ptr<Store> store_;
  std::unique_ptr<ControlServer> control_;
  std::unique_ptr<MetricsEndpoint> metrics_;
  Event event_;

  std::mutex mutex_;  // guards all below
  std::condition_variable wanted_, ended_, settled_;
  std::uint64_t under_way_ = 0;  // batches
  bool stopping_ = false, stopped_ = false;
  std::deque<std::uint64_t> tags_;

  std::unique_ptr<Executor> executor_;  // goes first: its thread is done with all of the above then
};

}  // namespace artesian
