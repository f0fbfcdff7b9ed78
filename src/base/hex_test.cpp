#include "base/hex.h"

#include <gtest/gtest.h>

#include <array>

namespace artesian {
namespace {

TEST(Hex, ThereAndBack) {
  const std::array bytes{std::byte{0x00}, std::byte{0xff}, std::byte{0x1a}};
  EXPECT_EQ(to_hex(bytes), "00ff1a");
  std::array<std::byte, 3> back{};
  EXPECT_TRUE(from_hex("00FF1a", back));
  EXPECT_EQ(back, bytes);
}

TEST(Hex, WhatIsNoPairsOfDigitsIsRefused) {
  std::array<std::byte, 2> out{};
  for (const char* text : {"", "0", "001", "00112", "0g11", "-111", "00 1", "001122"})
    EXPECT_FALSE(from_hex(text, out)) << text;
}

}  // namespace
}  // namespace artesian
