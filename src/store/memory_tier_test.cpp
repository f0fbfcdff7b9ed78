#include "store/memory_tier.h"

#include <gtest/gtest.h>

namespace artesian {
namespace {

std::shared_ptr<const MemoryBlock> block(std::uint64_t number, std::uint64_t bytes) {
  const std::vector<std::byte> data(bytes, static_cast<std::byte>(number));
  const std::vector<std::byte> key(8, static_cast<std::byte>(number));
  const std::span<const std::byte> piece = data;
  return copy_block({number, 1}, {}, 1, key, std::span(&piece, 1), bytes);
}

std::shared_ptr<const MemoryBlock> find(MemoryTier& tier, std::uint64_t number, std::uint64_t key_number,
                                        std::uint64_t epoch = 1) {
  const std::vector<std::byte> key(8, static_cast<std::byte>(key_number));
  return tier.find({number, 1}, {}, epoch, key);
}

TEST(MemoryTier, GivesWhatItWasGivenUnderTheFullKeyOnly) {
  MemoryTier tier(100'000);
  tier.insert(block(1, 5000));
  const auto found = find(tier, 1, 1);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->bytes, 5000U);
  EXPECT_TRUE(std::ranges::all_of(found->span(), [](std::byte value) { return value == std::byte{1}; }));
  EXPECT_EQ(find(tier, 1, 2), nullptr);  // the same hash, another key
  EXPECT_EQ(find(tier, 1, 1, 2), nullptr);
  EXPECT_EQ(find(tier, 2, 2), nullptr);
  tier.erase({1, 1});
  EXPECT_FALSE(tier.contains({1, 1}));
  EXPECT_EQ(tier.bytes(), 0U);
  EXPECT_EQ(found->span()[4999], std::byte{1});  // still whole for who reads it
}

TEST(MemoryTier, HoldsItsLimitAndDropsWhatWasUsedLongestAgo) {
  MemoryTier tier(20'000);
  for (std::uint64_t i = 1; i <= 3; ++i) tier.insert(block(i, 5000));
  ASSERT_NE(find(tier, 1, 1), nullptr);
  tier.insert(block(4, 5000));
  EXPECT_LE(tier.bytes(), 20'000U);
  EXPECT_TRUE(tier.contains({1, 1}));
  EXPECT_FALSE(tier.contains({2, 1}));
  EXPECT_TRUE(tier.contains({4, 1}));
  tier.insert(block(5, 11'000));  // more than half of all: not taken
  EXPECT_FALSE(tier.contains({5, 1}));
  tier.insert(block(4, 7000));  // anew
  EXPECT_EQ(find(tier, 4, 4)->bytes, 7000U);
  EXPECT_LE(tier.bytes(), 20'000U);
}

TEST(MemoryTier, WithoutMemoryTakesNothing) {
  MemoryTier tier(0);
  tier.insert(block(1, 1));
  EXPECT_FALSE(tier.contains({1, 1}));
}

}  // namespace
}  // namespace artesian
