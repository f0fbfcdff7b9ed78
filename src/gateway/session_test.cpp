#include "gateway/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace artesian {
namespace {

using testing::HasSubstr;

TEST(Session, SaysWhatIsToCome) {
  const auto nothing = read_session_hint("", "", "");
  ASSERT_TRUE(nothing);
  EXPECT_EQ(nothing->outlook, Outlook::unknown);
  const auto pause = read_session_hint("agent-7_b.c", "paused", "45");
  ASSERT_TRUE(pause);
  EXPECT_EQ(pause->name, "agent-7_b.c");
  EXPECT_EQ(pause->outlook, Outlook::awaited);
  EXPECT_EQ(pause->back_in, std::chrono::seconds(45));
  EXPECT_FALSE(read_session_hint("a", "paused", "")->back_in);
  EXPECT_EQ(read_session_hint("a", "ended", "")->outlook, Outlook::ended);
  EXPECT_EQ(read_session_hint("a", "active", "")->outlook, Outlook::unknown);
}

TEST(Session, IsReadStrictly) {
  for (const auto* name : {"a b", "a/b", "a\n", "\xc3\xa4"}) {
    const auto read = read_session_hint(name, "", "");
    ASSERT_FALSE(read) << name;
    EXPECT_THAT(read.error().message, HasSubstr("X-Artesian-Session: "));
  }
  EXPECT_FALSE(read_session_hint(std::string(65, 'a'), "", ""));
  for (const auto* state : {"Paused", "over", "paused "}) {
    const auto read = read_session_hint("", state, "");
    ASSERT_FALSE(read) << state;
    EXPECT_THAT(read.error().message, HasSubstr("active, paused or ended"));
  }
  for (const auto* back : {"-1", "1.5", "5s", " 5", "604801", "99999999999999999999"}) {
    const auto read = read_session_hint("", "paused", back);
    ASSERT_FALSE(read) << back;
    EXPECT_THAT(read.error().message, HasSubstr("X-Artesian-Back-In: "));
  }
  EXPECT_FALSE(read_session_hint("", "ended", "5"));
  EXPECT_FALSE(read_session_hint("", "", "5"));
}

}  // namespace
}  // namespace artesian
