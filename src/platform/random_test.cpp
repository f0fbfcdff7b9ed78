#include "platform/random.h"

#include <gtest/gtest.h>

#include <array>

namespace artesian {
namespace {

TEST(Random, IsNotTheSameTwice) {
  std::array<std::byte, 1000> first{}, second{};
  ASSERT_TRUE(random_bytes(first));
  ASSERT_TRUE(random_bytes(second));
  EXPECT_NE(first, second);
  EXPECT_TRUE(random_bytes({}));
}

}  // namespace
}  // namespace artesian
