#include "device/power_cut_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/units.h"
#include "platform/arena.h"

namespace artesian {
namespace {

class PowerCut : public testing::Test {
 protected:
  // Writes 8 KiB of `value` to place number `place`, and waits for it.
  Status write(PowerCutDevice& device, std::uint64_t place, std::byte value) {
    std::ranges::fill(memory_.span(), value);
    return run(device, {.op = IoOp::write, .offset = place * 8 * KiB, .buffer = memory_.span()});
  }
  Status run(PowerCutDevice& device, const IoRequest& request) {
    if (auto taken = device.submit(std::span(&request, 1)); !taken) return taken;
    std::array<IoCompletion, 1> done;
    EXPECT_EQ(device.poll(done), 1U);
    return done[0].status;
  }
  PowerCutDevice::Content empty() { return {std::vector<std::byte>(64 * KiB)}; }

  Arena memory_ = Arena::reserve(8 * KiB).value();
};

TEST_F(PowerCut, WhatWasFlushedStaysAndTheRestIsThereInPartOrNot) {
  PowerCutDevice device(empty());
  ASSERT_TRUE(write(device, 0, std::byte{1}));
  ASSERT_TRUE(run(device, {.op = IoOp::flush}));
  ASSERT_TRUE(write(device, 1, std::byte{2}));
  bool all = false, none = false, torn = false;
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    const auto content = device.after_cut(seed)[0];
    EXPECT_EQ(std::count(content.begin(), content.begin() + 8192, std::byte{1}), 8192);
    const auto there = std::count(content.begin() + 8192, content.begin() + 16384, std::byte{2});
    EXPECT_EQ(content, device.after_cut(seed)[0]);
    all = all || there == 8192;
    none = none || there == 0;
    torn = torn || (there > 0 && there < 8192);
  }
  EXPECT_TRUE(all && none && torn);
}

TEST_F(PowerCut, AFlushPromisesNothingForWritesThatWereNotComplete) {
  PowerCutDevice device(empty());
  const std::array requests{IoRequest{.op = IoOp::write, .buffer = memory_.span()}, IoRequest{.op = IoOp::flush}};
  std::ranges::fill(memory_.span(), std::byte{1});
  ASSERT_TRUE(device.submit(requests));
  std::array<IoCompletion, 2> done;
  EXPECT_EQ(device.poll(done), 2U);
  std::set<std::vector<std::byte>> outcomes;
  for (std::uint64_t seed = 0; seed < 64; ++seed) outcomes.insert(device.after_cut(seed)[0]);
  EXPECT_GT(outcomes.size(), 1U);
}

TEST_F(PowerCut, AfterTheCutEverythingFails) {
  PowerCutDevice device(empty(), 2);
  ASSERT_TRUE(write(device, 0, std::byte{1}));
  EXPECT_FALSE(device.is_cut());
  EXPECT_FALSE(write(device, 1, std::byte{2}));
  EXPECT_TRUE(device.is_cut());
  EXPECT_FALSE(run(device, {.buffer = memory_.span()}));
  EXPECT_FALSE(run(device, {.op = IoOp::flush}));
}

}  // namespace
}  // namespace artesian
