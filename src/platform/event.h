// A descriptor that is readable once something has happened, for poll loops of others (eventfd).
//
// Threads: set and clear from any thread. Ownership: the descriptor goes with the object.
#pragma once

#include "base/result.h"

namespace artesian {

class Event {
 public:
  static Result<Event> create();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  int fd() const { return fd_; }
  void set() const;
  void clear() const;

 private:
  explicit Event(int fd) : fd_(fd) {}

  int fd_ = -1;
};

}  // namespace artesian
