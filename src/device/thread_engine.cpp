#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "device/io_backend.h"

namespace artesian {
namespace {

// Threads that block in pread and pwrite: as much depth as there are threads.
class ThreadEngine final : public IoEngine {
 public:
  explicit ThreadEngine(std::uint32_t threads) {
    for (std::uint32_t i = 0; i < threads; ++i) workers_.emplace_back([this] { work(); });
  }

  ~ThreadEngine() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  std::string_view name() const override { return "threads"; }

  bool start(const IoOperation& operation) override {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(operation);
    wake_.notify_one();
    return true;
  }

  void submit() override {}

  std::size_t reap(std::span<IoDone> out, bool block, Nanos timeout) override {
    std::unique_lock lock(mutex_);
    if (block) arrived_.wait_for(lock, timeout, [this] { return !done_.empty(); });
    std::size_t count = 0;
    while (count < out.size() && !done_.empty()) {
      out[count++] = done_.front();
      done_.pop_front();
    }
    return count;
  }

  bool register_memory(std::span<std::byte>) override { return false; }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const IoOperation operation = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      const auto moved = operation.write ? operation.file->write_some(operation.offset, operation.buffer)
                                         : operation.file->read_some(operation.offset, operation.buffer);
      const IoDone done{.id = operation.id, .bytes = moved ? *moved : 0, .error = moved ? 0 : EIO};
      lock.lock();
      done_.push_back(done);
      arrived_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, arrived_;
  std::deque<IoOperation> waiting_;  // guarded by mutex_
  std::deque<IoDone> done_;          // guarded by mutex_
  bool stopping_ = false;            // guarded by mutex_
  std::vector<std::thread> workers_;
};

}  // namespace

std::unique_ptr<IoEngine> make_thread_engine(std::uint32_t threads) {
  return std::make_unique<ThreadEngine>(threads);
}

}  // namespace artesian
