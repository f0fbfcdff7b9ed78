#include "platform/thread_executor.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace artesian {

Result<std::unique_ptr<ThreadExecutor>> ThreadExecutor::open(std::size_t threads) {
  std::unique_ptr<ThreadExecutor> executor(new ThreadExecutor);  // the constructor is private
  threads = std::max<std::size_t>(threads, 1);
  executor->threads_.reserve(threads);
  try {
    for (std::size_t i = 0; i < threads; ++i) {
      executor->threads_.emplace_back([pool = executor.get()] { pool->work(); });
    }
  } catch (const std::system_error& error) {
    if (executor->threads_.empty()) {
      return fail(Code::rejected, "no thread could be started: {}", error.code().message());
    }
  }
  return executor;
}

ThreadExecutor::~ThreadExecutor() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ready_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void ThreadExecutor::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  ready_.notify_one();
}

void ThreadExecutor::work() {
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      ready_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace artesian
