// The StoreHost over a store of files: what the C library and the Python module stand on, and the daemon.
#pragma once

#include <condition_variable>
#include <mutex>

#include "artesian/store_host.h"
#include "base/executor.h"
#include "library/attach_server.h"
#include "library/control.h"
#include "library/metrics.h"
#include "library/tag_queue.h"

namespace artesian {

class Host final : public StoreHost {
 public:
  // From now on questions are answered at that socket.
  Status answer_at(const std::string& socket, std::unique_ptr<Executor> executor);

  // And other processes may use the store through that one.
  Status take_clients(const std::string& socket, std::unique_ptr<Executor> executor);

  Status serve_metrics(const std::string& address);
  int metrics_port() const { return metrics_ == nullptr ? 0 : metrics_->port(); }

  // `executor` lends one thread until the host goes, for no more than the host.
  static Result<std::unique_ptr<Host>> make(std::unique_ptr<Store> store, std::unique_ptr<Executor> executor);
  ~Host() override;

  Store& store() override { return *store_; }
  void submit(NamespaceId ns, std::span<Put> items, const Batch& batch, std::function<void()> done) override;
  void submit(NamespaceId ns, std::span<Get> items, const Batch& batch, std::function<void()> done) override;
  void stage(NamespaceId ns, std::span<Probe> items, const Batch& batch, std::function<void()> done) override;
  void announce(std::uint64_t tag) override { tags_.push(tag); }
  int event_fd() const override { return tags_.fd(); }
  std::size_t drain(std::span<std::uint64_t> tags) override { return tags_.drain(tags); }
  void settle() override;

 private:
  Host(std::unique_ptr<Store> store, TagQueue tags) : store_(std::move(store)), tags_(std::move(tags)) {}
  void work();
  std::function<void()> counted(std::function<void()> done);

  std::unique_ptr<Store> store_;
  std::unique_ptr<ControlServer> control_;
  std::unique_ptr<MetricsEndpoint> metrics_;
  std::unique_ptr<AttachServer> clients_;
  TagQueue tags_;

  std::mutex mutex_;  // guards all below
  std::condition_variable wanted_, ended_, settled_;
  std::uint64_t under_way_ = 0;  // batches
  bool stopping_ = false, stopped_ = false;

  std::unique_ptr<Executor> executor_;  // goes first: its thread is done with all of the above then
};

}  // namespace artesian
