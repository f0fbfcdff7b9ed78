#include "platform/event.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace artesian {

Result<Event> Event::create() {
  const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) return fail(Code::rejected, "the system gives no event descriptor: {}", std::strerror(errno));
  return Event(fd);
}

Event::Event(Event&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Event::~Event() {
  if (fd_ >= 0) ::close(fd_);
}

void Event::set() const {
  ::eventfd_write(fd_, 1);
}

void Event::clear() const {
  eventfd_t count = 0;
  ::eventfd_read(fd_, &count);
}

}  // namespace artesian
