#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace artesian {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(Crc32c, GivesWhatTheStandardSays) {
  EXPECT_EQ(crc32c({}), 0U);
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283U);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32)), 0x8A9136AAU);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0xFF})), 0x62A8AB43U);
}

TEST(Crc32c, GoesOnWhereItStopped) {
  const auto text =
      bytes_of("the quick brown fox jumps over the lazy dog, and over and over again, until the text is long");
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(crc32c(text.subspan(cut), crc32c(text.first(cut))), crc32c(text));
  }
}

TEST(Crc32c, SeesEveryFlippedBit) {
  std::vector<std::byte> bytes(257, std::byte{0x5A});
  const std::uint32_t right = crc32c(bytes);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_NE(crc32c(bytes), right);
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
}

}  // namespace
}  // namespace artesian
