#include "device/sweep.h"

#include <gtest/gtest.h>

#include "device/faulty_device.h"
#include "device/memory_device.h"
#include "device/sim_device.h"

namespace artesian {
namespace {

std::unique_ptr<MemoryDevice> memory(std::uint64_t bytes) {
  return std::make_unique<MemoryDevice>(std::vector<std::vector<std::byte>>(1, std::vector<std::byte>(bytes)));
}

// In virtual time the figures are known: depth d gives min(bandwidth, d x size / (latency + transfer)).
TEST(Sweep, FindsTheBandwidthAndLatencyOfASimulatedDrive) {
  ManualClock clock;
  SimDevice drive(memory(32 * MiB), clock, {.latency = Nanos{100'000}, .bytes_per_second = 1e9, .queue_depth_max = 64});
  SweepOptions options{.write = true,
                       .request_bytes = {4 * KiB, 1 * MiB},
                       .depths = {1, 16},
                       .time_per_point = std::chrono::milliseconds(200),
                       .progress = {}};
  std::size_t told = 0;
  options.progress = [&](const SweepPoint& point) {
    ++told;
    EXPECT_GT(point.bytes_per_second, 0);
  };
  const auto points = sweep_device(drive, clock, options);
  ASSERT_TRUE(points) << points.error().message;
  ASSERT_EQ(points->size(), 8U);
  EXPECT_EQ(told, 8U);
  for (const SweepPoint& point : *points) {
    const double transfer = static_cast<double>(point.request_bytes) / 1e9;
    const double alone = 100e-6 + transfer;
    const double expected = std::min(1e9, point.depth * static_cast<double>(point.request_bytes) / alone);
    EXPECT_NEAR(point.bytes_per_second, expected, expected * 0.05) << point.request_bytes << " x " << point.depth;
    EXPECT_NEAR(point.iops, point.bytes_per_second / static_cast<double>(point.request_bytes), 1);
    if (point.depth == 1) {
      EXPECT_NEAR(point.p50_us, alone * 1e6, alone * 1e6 * 0.01);
    }
    EXPECT_GE(point.p99_us, point.p50_us);
  }
  EXPECT_EQ((*points)[0].op, IoOp::read);
  EXPECT_EQ((*points)[4].op, IoOp::write);
  EXPECT_NEAR(best_read_bandwidth(*points), 1e9, 5e7);
}

TEST(Sweep, EndsAPointAtItsBytes) {
  ManualClock clock;
  SimDevice drive(memory(1 * MiB), clock);
  const auto points = sweep_device(drive, clock,
                                   {.request_bytes = {64 * KiB},
                                    .depths = {1},
                                    .time_per_point = std::chrono::hours(1),
                                    .bytes_per_point = 512 * KiB,
                                    .progress = {}});
  ASSERT_TRUE(points);
  EXPECT_EQ(drive.counters().bytes_read, 512 * KiB);
}

TEST(Sweep, LeavesOutWhatDoesNotFitAndSaysIfNothingDoes) {
  ManualClock clock;
  SimDevice drive(memory(64 * KiB), clock, {.queue_depth_max = 4});
  SweepOptions options{.time_per_point = std::chrono::milliseconds(1), .progress = {}};
  const auto points = sweep_device(drive, clock, options);
  ASSERT_TRUE(points);
  EXPECT_EQ(points->size(), 6U);  // 4K, 16K, 64K at depth 1 and 4
  options.request_bytes = {1 * MiB};
  EXPECT_EQ(sweep_device(drive, clock, options).error().code, Code::invalid);
  options.file = 3;
  EXPECT_EQ(sweep_device(drive, clock, options).error().code, Code::invalid);
  EXPECT_EQ(best_read_bandwidth({}), 0);
}

TEST(Sweep, TheFirstErrorEndsIt) {
  ManualClock clock;
  SimDevice drive(memory(1 * MiB), clock);
  for (const FaultPlan& plan : {FaultPlan{.fail_completion = 20}, FaultPlan{.fail_submit = 3}}) {
    FaultyDevice faulty(drive, plan);
    const auto points = sweep_device(faulty, clock, {.time_per_point = std::chrono::milliseconds(1), .progress = {}});
    ASSERT_FALSE(points);
    EXPECT_EQ(points.error().code, Code::device_failed);
    EXPECT_EQ(drive.counters().in_flight, 0U);  // nothing is left behind
  }
}

}  // namespace
}  // namespace artesian
