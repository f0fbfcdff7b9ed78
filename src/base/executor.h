// Threads come from outside, too: whoever needs work done elsewhere is handed an Executor.
#pragma once

#include <functional>

namespace artesian {

class Executor {
 public:
  virtual ~Executor() = default;
  // Queue a task; it runs once, on a thread of the executor's (or, stepped by hand, inside ManualExecutor::step).
  // Never blocks on the task itself. Safe to call from any thread.
  virtual void post(std::function<void()> task) = 0;
};

}  // namespace artesian
