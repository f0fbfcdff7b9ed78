#include "gateway/server_process.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace artesian {
namespace {

namespace net = boost::asio;
using namespace std::chrono_literals;

constexpr auto as_values = net::as_tuple(net::use_awaitable);
constexpr Duration pause_min = 500ms, pause_max = 30s;  // before it is started again
constexpr auto grace_time = 10s;                        // between being asked to end and being ended
constexpr auto look_again = 20ms;

}  // namespace

Task<int> ServerProcess::wait_for_end() {
  const auto fd = child_->end_descriptor();
  if (fd) {
    net::posix::stream_descriptor end(loop_, *fd);
    co_await end.async_wait(net::posix::stream_descriptor::wait_read, as_values);
  }
  net::steady_timer timer(loop_);
  while (true) {
    if (const auto code = child_->exit_code()) co_return *code;
    timer.expires_after(look_again);
    co_await timer.async_wait(as_values);
  }
}

Task<Result<int>> ServerProcess::run() {
  Duration pause = pause_min;
  net::steady_timer timer(loop_);
  while (true) {
    if (events_.before_start) events_.before_start();
    auto child = ChildProcess::start(command_);
    if (!child) co_return fail(std::move(child.error()));
    child_ = std::move(*child);
    ready_ = false;
    const int code = co_await wait_for_end();
    child_.reset();
    if (events_.ended) events_.ended(code);
    // One that never was ready would not be the next time: its own words say why.
    if (stopping_ || !ready_) co_return code;
    if (events_.report) events_.report(fmt::format("the server ended with {}; it is started again", code));
    timer.expires_after(pause);
    co_await timer.async_wait(as_values);
    pause = std::min(2 * pause, pause_max);
    if (stopping_) co_return code;
  }
}

Task<void> ServerProcess::stop() {
  stopping_ = true;
  if (!child_) co_return;
  child_->ask_to_end();
  net::steady_timer timer(loop_);
  for (Duration waited{0}; child_ && waited < grace_time; waited += look_again) {
    timer.expires_after(look_again);
    co_await timer.async_wait(as_values);
  }
  if (child_) child_->kill();
}

}  // namespace artesian
