// An open store with a thread that moves its I/O on, for programs that submit and are told: by a callback, a future or
// an event descriptor. Programs that have a loop of their own use Store alone (poll, wait).
//
// Threads: every call from any thread; callbacks run on the host's thread, or on the caller's before submit returns,
// and must not block. Ownership: as Store: what a batch points to stays where it is until it is answered.
#pragma once

#include <future>
#include <memory>

#include "artesian/store.h"

namespace artesian {

class StoreHost {
 public:
  virtual ~StoreHost() = default;  // waits for what is under way

  // The calls that answer at once, or are waited for.
  virtual Store& store() = 0;

  virtual void submit(NamespaceId ns, std::span<Put> items, const Batch& batch, std::function<void()> done) = 0;
  virtual void submit(NamespaceId ns, std::span<Get> items, const Batch& batch, std::function<void()> done) = 0;
  virtual void stage(NamespaceId ns, std::span<Probe> items, const Batch& batch, std::function<void()> done) = 0;

  template <typename Item>
  std::future<void> submit(NamespaceId ns, std::span<Item> items, const Batch& batch = {}) {
    auto promise = std::make_shared<std::promise<void>>();
    auto future = promise->get_future();
    submit(ns, items, batch, [promise] { promise->set_value(); });
    return future;
  }

  // Tags of batches whose callback is announce(tag): queued, and the descriptor is readable while there are any.
  virtual void announce(std::uint64_t tag) = 0;
  virtual int event_fd() const = 0;
  virtual std::size_t drain(std::span<std::uint64_t> tags) = 0;

  // Waits until nothing that was submitted is under way. Not from a callback.
  virtual void settle() = 0;
};

}  // namespace artesian
