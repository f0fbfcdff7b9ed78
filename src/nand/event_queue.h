// What happens next in virtual time: a heap of events in order of time, and of scheduling where times are equal, so
// that a run is the same every time. Not thread safe.
#pragma once

#include <cstdint>
#include <vector>

#include "nand/layout.h"

namespace artesian::nand {

enum class EventKind : std::uint8_t { issue, arrived, sensed, moved, die_done, suspended, complete };

struct Event {
  Time at = 0;
  std::uint32_t order = 0;  // wraps; only ever compared with neighbours in time
  EventKind kind{};
  std::uint32_t index = 0;
};

class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }
  const Event& top() const { return heap_.front(); }

  void push(Time at, EventKind kind, std::uint32_t index) {
    const Event event{at, order_++, kind, index};
    std::size_t hole = heap_.size();
    heap_.push_back(event);
    while (hole > 0) {
      const std::size_t parent = (hole - 1) / 4;
      if (!before(event, heap_[parent])) break;
      heap_[hole] = heap_[parent];
      hole = parent;
    }
    heap_[hole] = event;
  }

  Event pop() {
    const Event first = heap_.front();
    const Event last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sink(last);
    return first;
  }

  void clear() { heap_.clear(); }

 private:
  static bool before(const Event& a, const Event& b) {
    return a.at != b.at ? a.at < b.at : static_cast<std::int32_t>(a.order - b.order) < 0;
  }

  void sink(const Event& event) {
    std::size_t hole = 0;
    const std::size_t size = heap_.size();
    while (true) {
      const std::size_t first = hole * 4 + 1;
      if (first >= size) break;
      std::size_t least = first;
      const std::size_t end = first + 4 < size ? first + 4 : size;
      for (std::size_t child = first + 1; child < end; ++child) {
        if (before(heap_[child], heap_[least])) least = child;
      }
      if (!before(heap_[least], event)) break;
      heap_[hole] = heap_[least];
      hole = least;
    }
    heap_[hole] = event;
  }

  std::vector<Event> heap_;  // four children each: half the levels, and siblings share a cache line
  std::uint32_t order_ = 0;
};

}  // namespace artesian::nand
