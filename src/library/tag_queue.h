// Tags of batches that were answered, and a descriptor that is readable while there are any.
//
// Threads: every call from any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <span>

#include "platform/event.h"

namespace artesian {

class TagQueue {
 public:
  static Result<TagQueue> create() {
    auto event = Event::create();
    if (!event) return fail(std::move(event.error()));
    return TagQueue(std::move(*event));
  }
  TagQueue(TagQueue&& other) noexcept : event_(std::move(other.event_)) {}  // before anybody uses it

  int fd() const { return event_.fd(); }

  void push(std::uint64_t tag) {
    const std::lock_guard lock(mutex_);
    tags_.push_back(tag);
    event_.set();
  }

  std::size_t drain(std::span<std::uint64_t> tags) {
    const std::lock_guard lock(mutex_);
    std::size_t count = 0;
    for (; count < tags.size() && !tags_.empty(); ++count) {
      tags[count] = tags_.front();
      tags_.pop_front();
    }
    if (tags_.empty()) event_.clear();
    return count;
  }

 private:
  explicit TagQueue(Event event) : event_(std::move(event)) {}

  Event event_;
  std::mutex mutex_;
  std::deque<std::uint64_t> tags_;
};

}  // namespace artesian
