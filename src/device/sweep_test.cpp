#include "device/sweep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "device/faulty_device.h"
#include "device/memory_device.h"
#include "device/sim_device.h"
#include "platform/arena.h"

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
  options.progress = [&](const SweepPoint& point, std::size_t done, std::size_t all) {
    EXPECT_EQ(done, ++told);
    EXPECT_EQ(all, 8U);
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

std::vector<std::byte> content(Device& device, std::uint64_t bytes) {
  auto arena = Arena::reserve(bytes);
  EXPECT_TRUE(arena);
  const IoRequest all{.buffer = arena->span()};
  EXPECT_TRUE(device.submit(std::span(&all, 1)));
  IoCompletion done;
  EXPECT_EQ(device.wait(std::span(&done, 1), Nanos::max()), 1U);
  EXPECT_TRUE(done.status);
  return {arena->data(), arena->data() + bytes};
}

TEST(Sweep, WritesNotWhatItHasRead) {  // zeros here, which a drive could compress
  ManualClock clock;
  SimDevice drive(memory(16 * KiB), clock);
  const auto points = sweep_device(drive, clock,
                                   {.write = true,
                                    .request_bytes = {16 * KiB},
                                    .depths = {1},
                                    .time_per_point = std::chrono::milliseconds(1),
                                    .progress = {}});
  ASSERT_TRUE(points) << points.error().message;
  const auto bytes = content(drive, 16 * KiB);
  EXPECT_LT(std::ranges::count(bytes, std::byte{0}), 1000);
}

TEST(Sweep, FillsAFileWithBlocksThatDiffer) {
  ManualClock clock;
  constexpr std::uint64_t size = 3 * MiB + 8 * KiB;
  SimDevice drive(memory(size), clock, {.queue_depth_max = 2});
  double last = 0;
  ASSERT_TRUE(fill_file(drive, 0, 1, [&](double part) {
    EXPECT_GE(part, last);
    last = part;
  }));
  EXPECT_EQ(last, 1.0);
  EXPECT_EQ(drive.counters().bytes_written, size);
  std::set<std::vector<std::byte>> blocks;
  const auto bytes = content(drive, size);
  for (std::size_t at = 0; at < size; at += 4096) blocks.emplace(&bytes[at], &bytes[at] + 4096);
  EXPECT_EQ(blocks.size(), size / 4096);
  EXPECT_EQ(fill_file(drive, 7, 1, {}).error().code, Code::invalid);
}

TEST(Sweep, TheFirstErrorEndsFilling) {
  ManualClock clock;
  SimDevice drive(memory(8 * MiB), clock);
  for (const FaultPlan& plan : {FaultPlan{.fail_completion = 2}, FaultPlan{.fail_submit = 3}}) {
    FaultyDevice faulty(drive, plan);
    EXPECT_EQ(fill_file(faulty, 0, 1, {}).error().code, Code::device_failed);
    EXPECT_EQ(drive.counters().in_flight, 0U);  // nothing is left behind
  }
}

}  // namespace
}  // namespace artesian
