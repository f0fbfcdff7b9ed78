#include "platform/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "base/units.h"

namespace artesian {
namespace {

bool all(std::span<const std::byte> bytes, std::byte value) {
  return std::ranges::all_of(bytes, [value](std::byte b) { return b == value; });
}

TEST(Arena, IsPageAlignedRoundedUpAndZero) {
  const auto arena = Arena::reserve(10'000);
  ASSERT_TRUE(arena);
  EXPECT_EQ(arena->size(), 12'288U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena->data()) % 4096, 0U);
  EXPECT_TRUE(all(arena->span(), std::byte{0}));
}

// 128 GiB: ThreadSanitizer leaves a program some 1.5 TiB of addresses, of which the kernel's random placement may
// cost 1.
TEST(Arena, ReservesAddressesNotMemory) {
  const auto arena = Arena::reserve(128 * GiB);
  ASSERT_TRUE(arena) << arena.error().message;
  arena->span()[64 * GiB] = std::byte{1};
  EXPECT_EQ(Arena::reserve(1ULL << 62).error().code, Code::rejected);
}

TEST(Arena, ReleasesWholePagesInsideTheRangeOnly) {
  auto arena = Arena::reserve(4 * 4096);
  ASSERT_TRUE(arena);
  std::ranges::fill(arena->span(), std::byte{7});
  arena->release(100, 2 * 4096 + 4000);  // pages 1 and 2 lie wholly inside
  EXPECT_TRUE(all(arena->span().first(4096), std::byte{7}));
  EXPECT_TRUE(all(arena->span().subspan(4096, 2 * 4096), std::byte{0}));
  EXPECT_TRUE(all(arena->span().last(4096), std::byte{7}));
  arena->release(4095, 2);  // no whole page
  EXPECT_TRUE(all(arena->span().first(4096), std::byte{7}));
}

TEST(Arena, KeepsAnAccountOfBlocks) {
  auto arena = Arena::reserve(16 * MiB + 4096, Arena::Pages::large);
  ASSERT_TRUE(arena);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena->data()) % (2 * MiB), 0U);
  EXPECT_EQ(arena->size(), 16 * MiB + 4096);
  EXPECT_EQ(arena->commit_cost(2 * MiB - 1, 2), 4 * MiB);
  arena->commit(2 * MiB - 1, 2);
  EXPECT_EQ(arena->committed(), 4 * MiB);
  EXPECT_EQ(arena->commit_cost(0, 6 * MiB), 2 * MiB);
  EXPECT_EQ(arena->commit_cost(0, 0), 0U);
  arena->span()[3 * MiB] = std::byte{7};
  EXPECT_EQ(arena->release(1 * MiB, 2 * MiB), 0U);  // holds no whole block
  EXPECT_EQ(arena->span()[3 * MiB], std::byte{7});
  EXPECT_EQ(arena->release(1 * MiB, 15 * MiB), 2 * MiB);  // the one that was committed
  EXPECT_EQ(arena->span()[3 * MiB], std::byte{0});
  EXPECT_EQ(arena->committed(), 2 * MiB);
}

TEST(Arena, MovesItsMemory) {
  auto first = Arena::reserve(4096);
  ASSERT_TRUE(first);
  std::byte* const place = first->data();
  Arena second = std::move(*first);
  EXPECT_EQ(second.data(), place);
  EXPECT_EQ(first->size(), 0U);
  Arena third;
  third = std::move(second);
  EXPECT_EQ(third.data(), place);
  third.data()[0] = std::byte{1};
}

}  // namespace
}  // namespace artesian
