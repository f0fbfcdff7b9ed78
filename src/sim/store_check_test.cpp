#include "sim/store_check.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "sim/store_on_nand.h"

namespace artesian::sim {
namespace {

TEST(StoreCheck, HandlesKeepTheStoreApartFromOverwrites) {
  std::vector<nand::CheckRow> rows;
  const auto checked = check_store(rows, {.quick = true});
  ASSERT_TRUE(checked) << checked.error().message;
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_LE(rows[0].figure, 1.08);  // limits for a small drive: see store_check.cpp
  EXPECT_GE(rows[1].figure, 2.0);
  EXPECT_TRUE(rows[2].met) << rows[2].figure << " beside " << rows[2].reference;
}

TEST(StoreOnNand, OneSeedOneResultAndBlocksAreCompared) {
  const auto run = [](std::uint64_t seed) {
    const auto profile = nand::with_capacity(*nand::shipped_profile("970pro"), 256 * MiB);
    return run_store_on_nand(profile,
                             {.block_bytes = 128 * KiB, .fill_writes = 0.6, .windows = 1, .settled = 1, .seed = seed});
  };
  const auto first = run(1), again = run(1), other = run(2);
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_TRUE(again && other);
  EXPECT_GT(first->blocks_checked, 50U);
  EXPECT_EQ(first->digest, again->digest);
  EXPECT_NE(first->digest, other->digest);
}

}  // namespace
}  // namespace artesian::sim
