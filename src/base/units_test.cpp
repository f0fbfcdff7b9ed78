#include "base/units.h"

#include <gtest/gtest.h>

namespace artesian {
namespace {

TEST(Units, ParsesWhatPeopleWrite) {
  EXPECT_EQ(*parse_size("8G"), 8 * GiB);
  EXPECT_EQ(*parse_size("900M"), 900 * MiB);
  EXPECT_EQ(*parse_size("1.5GiB"), 1536 * MiB);
  EXPECT_EQ(*parse_size("64kB"), 64 * KiB);
  EXPECT_EQ(*parse_size("4096"), 4096U);
}

TEST(Units, RefusesTheRestWithASentence) {
  for (const char* bad : {"", "G", "-1G", "8X", "8GG", "nan", "1e40", "8 G"}) {
    const auto size = parse_size(bad);
    ASSERT_FALSE(size) << bad;
    EXPECT_EQ(size.error().code, Code::invalid);
    EXPECT_NE(size.error().message.find("is not a size"), std::string::npos);
  }
}

TEST(Units, FormatsWithUnits) {
  EXPECT_EQ(format_bytes(1'430'000'000), "1.43 GB");
  EXPECT_EQ(format_size(900 * MiB), "900.0 MiB");
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_rate(1.39e9), "1.39 GB/s");
}

}  // namespace
}  // namespace artesian
