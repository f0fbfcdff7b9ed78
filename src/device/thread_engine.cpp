#include <condition_variable>
#include <deque>
#include <mutex>

#include "device/io_backend.h"
#include "platform/thread_executor.h"

namespace artesian {
namespace {

// Threads that block in preadv and pwritev: as much depth as there are threads.
class ThreadEngine final : public IoEngine {
 public:
  ThreadEngine(std::unique_ptr<ThreadExecutor> executor, std::span<const File> files)
      : files_(files), executor_(std::move(executor)) {}

  std::string_view name() const override { return "threads"; }

  void start(const IoOperation& operation) override {
    executor_->post([this, operation] {
      const File& file = files_[operation.file];
      const std::int64_t result = operation.flush ? file.sync_data_result()
                                                  : file.transfer(operation.write, operation.offset, operation.memory);
      const IoDone done{operation.id, result};
      const std::lock_guard lock(mutex_);
      done_.push_back(done);
      arrived_.notify_one();
    });
  }

  void submit() override {}

  std::size_t reap(std::span<IoDone> out, bool block, Nanos timeout) override {
    std::unique_lock lock(mutex_);
    const auto some = [this] { return !done_.empty() || woken_; };
    if (block && timeout == Nanos::max()) {
      arrived_.wait(lock, some);
    } else if (block) {
      arrived_.wait_for(lock, timeout, some);
    }
    woken_ = woken_ && !block;
    std::size_t count = 0;
    while (count < out.size() && !done_.empty()) {
      out[count++] = done_.front();
      done_.pop_front();
    }
    return count;
  }

  void wake() override {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    arrived_.notify_all();
  }

  bool register_memory(std::span<std::byte>) override { return false; }
  void unregister_memory(std::span<std::byte>) override {}

 private:
  std::span<const File> files_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<IoDone> done_;                   // guarded by mutex_
  bool woken_ = false;                        // guarded by mutex_
  std::unique_ptr<ThreadExecutor> executor_;  // last: its threads use what is above until they are joined
};

}  // namespace

Result<std::unique_ptr<IoEngine>> make_thread_engine(std::uint32_t threads, std::span<const File> files) {
  auto executor = ThreadExecutor::open(threads);
  if (!executor) return fail(std::move(executor.error()));
  return std::make_unique<ThreadEngine>(std::move(*executor), files);
}

}  // namespace artesian
