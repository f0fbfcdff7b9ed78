// An Executor on a fixed number of threads. Tasks start in the order in which they were posted; destruction runs what
// is queued to the end and joins. Threads: post() from any thread, also from a task.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/executor.h"
#include "base/result.h"

namespace artesian {

class ThreadExecutor final : public Executor {
 public:
  // Fails with `rejected` if the system gives not even one thread; fewer than asked for are accepted.
  static Result<std::unique_ptr<ThreadExecutor>> open(std::size_t threads);
  ~ThreadExecutor() override;
  ThreadExecutor(const ThreadExecutor&) = delete;
  ThreadExecutor& operator=(const ThreadExecutor&) = delete;

  void post(std::function<void()> task) override;
  std::size_t thread_count() const { return threads_.size(); }

 private:
  ThreadExecutor() = default;
  void work();

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace artesian
