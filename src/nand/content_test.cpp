#include "nand/content.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/units.h"

namespace artesian::nand {
namespace {

class ContentTest : public testing::Test {
 protected:
  static Profile profile() {
    Profile p;
    p.blocks_per_plane = 4;
    p.wordlines_per_block = 2;
    p.capacity_bytes = 64 * KiB;
    p.map_unit_bytes = 4096;
    return p;
  }
  std::vector<std::byte> read(std::uint32_t pua) const {
    std::vector<std::byte> bytes(4096, std::byte{0xEE});
    content_.read(pua, 0, bytes);
    return bytes;
  }
  static std::vector<std::byte> generated(std::uint64_t number) {
    std::vector<std::byte> bytes(4096);
    generate(seed_word(number), 0, bytes);
    return bytes;
  }

  Layout layout_{profile()};
  Content content_{layout_};
};

TEST_F(ContentTest, GeneratedPagesAreMadeAnewAndOthersKept) {
  std::vector<std::byte> almost = generated(7);
  almost[4095] ^= std::byte{1};
  content_.write(0, generated(7));
  EXPECT_EQ(content_.kept_bytes(), 0U);
  content_.write(1, almost);
  EXPECT_EQ(content_.kept_bytes(), 4096U);
  EXPECT_EQ(read(0), generated(7));
  EXPECT_EQ(read(1), almost);
  EXPECT_EQ(read(2), std::vector<std::byte>(4096)) << "nothing was written there";
  std::vector<std::byte> part(512);
  content_.read(0, 1024, part);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), generated(7).begin() + 1024));
}

TEST_F(ContentTest, ThePlaceHoldsWhatWasWrittenLast) {
  const std::vector<std::byte> other(4096, std::byte{5});
  content_.write(3, other);
  content_.write(3, generated(1));
  EXPECT_EQ(read(3), generated(1));
  EXPECT_EQ(content_.kept_bytes(), 0U);
  content_.write(3, other);
  EXPECT_EQ(read(3), other);
  content_.copy(3, 9);
  EXPECT_EQ(read(9), other);
  content_.write(3, generated(2));
  content_.copy(3, 9);
  EXPECT_EQ(read(9), generated(2));
  content_.copy(8, 9);
  EXPECT_EQ(read(9), std::vector<std::byte>(4096));
  content_.erase(0);
  EXPECT_EQ(read(3), std::vector<std::byte>(4096));
  EXPECT_EQ(content_.kept_bytes(), 0U);
}

TEST(Generated, APartOfABlockIsSuchASequenceAndNoOther) {
  std::vector<std::byte> block(64 * KiB);
  generate(seed_word(3), 0, block);
  const std::span<const std::byte> all(block);
  EXPECT_TRUE(is_generated(seed_word(3), all));
  EXPECT_FALSE(is_generated(seed_word(4), all));
  EXPECT_TRUE(is_generated(all.subspan(8 * KiB, 4 * KiB)));
  EXPECT_FALSE(is_generated(seed_word(3), all.subspan(8 * KiB, 4 * KiB))) << "another page of the block";
  for (const std::size_t at : {std::size_t{0}, std::size_t{4095}, block.size() - 1}) {
    block[at] ^= std::byte{0x10};
    EXPECT_FALSE(is_generated(seed_word(3), block)) << at;
    block[at] ^= std::byte{0x10};
  }
}

}  // namespace
}  // namespace artesian::nand
