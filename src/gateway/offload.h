// Work on another thread from within a coroutine: what blocks does not block the loop.
//
// Threads: called on the loop, comes back there. Ownership: the work is moved to the executor and is gone before the
// coroutine goes on; what it refers to lives in the coroutine.
#pragma once

#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/executor.h"

namespace artesian {

// Runs `work` on the executor and returns what it returned.
template <typename Work>
boost::asio::awaitable<std::invoke_result_t<Work>> offload(Executor& executor, Work work) {
  using Value = std::invoke_result_t<Work>;
  auto loop = co_await boost::asio::this_coro::executor;
  auto value = std::make_shared<std::optional<Value>>();
  auto begin = [&executor, loop, value, &work](auto handler) {
    auto shared = std::make_shared<decltype(handler)>(std::move(handler));
    executor.post([loop, value, shared, &work]() mutable {
      value->emplace(work());
      // The handler is let go of on the loop: it holds the coroutine.
      boost::asio::post(loop, [shared = std::move(shared)] { std::move (*shared)(); });
    });
  };
  co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void()>(begin, boost::asio::use_awaitable);
  co_return std::move(**value);
}

}  // namespace artesian
