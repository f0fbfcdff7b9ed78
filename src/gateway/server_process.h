// llama-server as our child: started, started again when it ends by itself, ended with us.
//
// Threads: on the loop, whose thread starts it and lives as long as it.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <optional>
#include <string>

#include "gateway/http.h"
#include "platform/process.h"

namespace artesian {

class ServerProcess {
 public:
  struct Events {
    std::function<void()> before_start;
    std::function<void(int exit_code)> ended;
    std::function<void(std::string_view)> report;
  };
  ServerProcess(boost::asio::any_io_executor loop, Command command, Events events)
      : loop_(std::move(loop)), command_(std::move(command)), events_(std::move(events)) {}

  // Runs it again and again until stop(). Returns its last exit code, or why it could not be started at all; a server
  // that ends within its first seconds, before it was ever ready, is not started again.
  Task<Result<int>> run();
  void was_ready() { ready_ = true; }
  // Asks it to end, and some seconds later sees to it.
  Task<void> stop();

 private:
  Task<int> wait_for_end();

  boost::asio::any_io_executor loop_;
  Command command_;
  Events events_;
  std::optional<ChildProcess> child_;
  bool stopping_ = false, ready_ = false;
};

}  // namespace artesian
