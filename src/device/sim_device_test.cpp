#include "device/sim_device.h"

#include <gtest/gtest.h>

#include <array>

#include "base/units.h"
#include "device/memory_device.h"
#include "platform/arena.h"

namespace artesian {
namespace {

class SimDeviceTest : public testing::Test {
 protected:
  // 100 us of latency, 4096 bytes in 4.096 us.
  SimDevice make(std::uint32_t depth) {
    auto content = std::make_unique<MemoryDevice>(std::vector<std::uint64_t>{1 * MiB},
                                                  [](FileIndex, std::uint64_t offset, std::span<std::byte> out) {
                                                    for (std::size_t i = 0; i < out.size(); ++i)
                                                      out[i] = static_cast<std::byte>((offset + i) / 4096);
                                                  });
    return {std::move(content), clock_, {.latency = Nanos{100'000}, .bytes_per_second = 1e9, .queue_depth_max = depth}};
  }
  void submit(Device& device, std::uint64_t count) {
    std::vector<IoRequest> requests;
    for (std::uint64_t i = 0; i < count; ++i) {
      requests.push_back({.offset = i * 4096, .buffer = memory_.span().subspan(i * 4096, 4096), .tag = i});
    }
    ASSERT_TRUE(device.submit(requests));
  }

  ManualClock clock_;
  Arena memory_ = Arena::reserve(1 * MiB).value();
  std::array<IoCompletion, 16> out_;
};

TEST_F(SimDeviceTest, OneRequestTakesLatencyAndTransfer) {
  auto device = make(4);
  submit(device, 1);
  EXPECT_EQ(device.poll(out_), 0U);  // no time has passed
  EXPECT_EQ(device.counters().in_flight, 1U);
  EXPECT_EQ(device.wait(out_, Nanos::max()), 1U);
  EXPECT_EQ(clock_.now(), Nanos{104'096});
  EXPECT_EQ(device.counters().busy, Nanos{104'096});
}

TEST_F(SimDeviceTest, WaitStopsAtTheDeadline) {
  auto device = make(4);
  submit(device, 1);
  EXPECT_EQ(device.wait(out_, Nanos{50'000}), 0U);
  EXPECT_EQ(clock_.now(), Nanos{50'000});
  EXPECT_EQ(device.wait(out_, Nanos{10}), 0U);  // over already: time does not go back
  EXPECT_EQ(clock_.now(), Nanos{50'000});
  EXPECT_EQ(device.wait(out_, Nanos{104'096}), 1U);
}

TEST_F(SimDeviceTest, DepthOverlapsLatenciesAndTransfersFollowEachOther) {
  auto deep = make(4);
  submit(deep, 4);
  for (int got = 0; got < 4;) got += static_cast<int>(deep.wait(out_, Nanos::max()));
  EXPECT_EQ(clock_.now(), Nanos{100'000 + 4 * 4096});
  const Nanos start = clock_.now();
  auto shallow = make(1);
  submit(shallow, 4);
  for (int got = 0; got < 4;) got += static_cast<int>(shallow.wait(out_, Nanos::max()));
  EXPECT_EQ(clock_.now() - start, Nanos{4 * 104'096});
}

TEST_F(SimDeviceTest, WhatWaitsStartsWhenTheDriveIsFreeEvenIfNobodyLooks) {
  auto device = make(1);
  submit(device, 3);
  clock_.advance(Nanos{10 * 104'096});  // somebody computes meanwhile
  EXPECT_EQ(device.poll(out_), 3U);
  EXPECT_EQ(device.counters().busy, Nanos{3 * 104'096});
  EXPECT_EQ(memory_.data()[2 * 4096], std::byte{2});
}

TEST_F(SimDeviceTest, ReadsLandWhenTheyAreDoneAndNotBefore) {
  auto device = make(1);
  submit(device, 2);
  EXPECT_EQ(device.wait(out_, Nanos::max()), 1U);
  EXPECT_EQ(memory_.data()[4096], std::byte{0});
  EXPECT_EQ(device.wait(out_, Nanos::max()), 1U);
  EXPECT_EQ(memory_.data()[4096], std::byte{1});
  EXPECT_EQ(device.wait(out_, Nanos::max()), 0U);
}

}  // namespace
}  // namespace artesian
