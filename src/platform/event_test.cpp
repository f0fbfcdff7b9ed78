#include "platform/event.h"

#include <gtest/gtest.h>
#include <poll.h>

namespace artesian {
namespace {

bool readable(const Event& event) {
  pollfd one{.fd = event.fd(), .events = POLLIN};
  return ::poll(&one, 1, 0) == 1;
}

TEST(Event, IsReadableFromSetToClear) {
  auto event = Event::create();
  ASSERT_TRUE(event) << event.error().message;
  EXPECT_FALSE(readable(*event));
  event->set();
  event->set();
  EXPECT_TRUE(readable(*event));
  event->clear();
  EXPECT_FALSE(readable(*event));
  event->clear();
  const Event moved = std::move(*event);
  moved.set();
  EXPECT_TRUE(readable(moved));
}

}  // namespace
}  // namespace artesian
