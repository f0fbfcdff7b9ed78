#include "device/file_device.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "base/units.h"
#include "platform/arena.h"
#include "platform/clock.h"

namespace artesian {
namespace {

std::byte pattern(std::uint64_t offset) {
  return static_cast<std::byte>((offset * 2654435761U) >> 13);
}

class FileDeviceTest : public testing::TestWithParam<IoBackend> {
 protected:
  static constexpr std::uint64_t file_bytes = 4 * MiB + 1000;

  void SetUp() override {
    std::string name = testing::TempDir() + "artesian-device-XXXXXX";
    const int fd = mkstemp(name.data());
    ASSERT_GE(fd, 0);
    close(fd);
    path_ = name;
    std::ofstream out(path_, std::ios::binary);
    for (std::uint64_t i = 0; i < file_bytes; ++i) out.put(static_cast<char>(pattern(i)));
    out.close();
    memory_ = std::move(*Arena::reserve(8 * MiB));
  }
  void TearDown() override { unlink(path_.c_str()); }

  std::unique_ptr<Device> open(std::uint32_t depth = 8, std::uint32_t queue_max = 64) {
    auto device = open_file_device(
        {.paths = {path_}, .backend = GetParam(), .queue_depth_max = depth, .queue_max = queue_max, .report = {}},
        clock_);
    EXPECT_TRUE(device) << device.error().message;
    return std::move(*device);
  }

  IoRequest read(std::uint64_t offset, std::uint64_t bytes, std::uint64_t at, std::uint64_t tag) {
    return {.offset = offset, .buffer = memory_.span().subspan(at, bytes), .tag = tag};
  }

  std::vector<IoCompletion> drain(Device& device, std::size_t count) {
    std::vector<IoCompletion> all;
    std::array<IoCompletion, 4> some;
    while (all.size() < count) {
      const std::size_t got = device.wait(some, clock_.now() + std::chrono::seconds(10));
      if (got == 0) break;
      all.insert(all.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(got));
    }
    return all;
  }

  SteadyClock clock_;
  std::string path_;
  Arena memory_;
};

TEST_P(FileDeviceTest, ReadsTheRightBytesAtAnyDepth) {
  auto device = open(4);
  std::vector<IoRequest> requests;
  for (std::uint64_t i = 0; i < 32; ++i) requests.push_back(read((31 - i) * 128 * KiB, 128 * KiB, i * 128 * KiB, i));
  ASSERT_TRUE(device->submit(requests));
  const auto done = drain(*device, 32);
  ASSERT_EQ(done.size(), 32U);
  for (const auto& completion : done) {
    ASSERT_TRUE(completion.status) << completion.status.error().message;
    for (std::uint64_t j = 0; j < 128 * KiB; j += 997) {
      ASSERT_EQ(memory_.data()[completion.tag * 128 * KiB + j], pattern((31 - completion.tag) * 128 * KiB + j));
    }
  }
  EXPECT_EQ(device->counters().bytes_read, 4 * MiB);
  EXPECT_EQ(device->counters().in_flight, 0U);
}

TEST_P(FileDeviceTest, TheEndOfTheFileIsAShortSuccess) {
  auto device = open();
  ASSERT_TRUE(device->submit(std::array{read(4 * MiB, 4096, 0, 7)}));
  const auto done = drain(*device, 1);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_TRUE(done[0].status);
  EXPECT_EQ(done[0].bytes, 1000U);
}

TEST_P(FileDeviceTest, AFileThatShrinksIsAnError) {
  auto device = open();
  ASSERT_EQ(truncate(path_.c_str(), 1 * MiB), 0);
  ASSERT_TRUE(device->submit(std::array{read(1 * MiB - 4096, 128 * KiB, 0, 1), read(2 * MiB, 4096, 1 * MiB, 2)}));
  for (const auto& completion : drain(*device, 2)) {
    ASSERT_FALSE(completion.status);
    EXPECT_NE(completion.status.error().message.find(path_), std::string::npos);
  }
}

TEST_P(FileDeviceTest, RefusesWhatBreaksTheRulesAndTakesNothingOfIt) {
  auto device = open(2, 4);
  EXPECT_EQ(device->submit(std::array{read(0, 4096, 0, 1), read(100, 4096, 0, 2)}).error().code, Code::invalid);
  EXPECT_EQ(device->submit(std::array{read(0, 100, 0, 1)}).error().code, Code::invalid);
  EXPECT_EQ(device->submit(std::array{read(8 * MiB, 4096, 0, 1)}).error().code, Code::invalid);
  std::vector<IoRequest> five(5, read(0, 4096, 0, 1));
  EXPECT_EQ(device->submit(five).error().code, Code::retry);
  std::array<IoCompletion, 2> out;
  EXPECT_EQ(device->wait(out, clock_.now() + std::chrono::seconds(1)), 0U);
}

TEST_P(FileDeviceTest, DemandGoesBeforeStaged) {
  auto device = open(1);
  std::vector<IoRequest> requests;
  for (std::uint64_t i = 0; i < 6; ++i) {
    requests.push_back(read(i * 4096, 4096, i * 4096, i));
    requests.back().io_class = i < 3 ? IoClass::staged : IoClass::demand;
  }
  ASSERT_TRUE(device->submit(requests));
  std::vector<std::uint64_t> order;
  for (const auto& completion : drain(*device, 6)) order.push_back(completion.tag);
  EXPECT_EQ(order, (std::vector<std::uint64_t>{3, 4, 5, 0, 1, 2}));
}

TEST_P(FileDeviceTest, WritesAndReadsBack) {
  auto device = open_file_device(
      {.paths = {path_}, .write = true, .backend = GetParam(), .queue_depth_max = 4, .report = {}}, clock_);
  ASSERT_TRUE(device);
  std::fill_n(memory_.data(), 64 * KiB, std::byte{0x5a});
  IoRequest write = read(64 * KiB, 64 * KiB, 0, 1);
  write.op = IoOp::write;
  ASSERT_TRUE((*device)->submit(std::array{write}));
  ASSERT_TRUE(drain(**device, 1).at(0).status);
  ASSERT_TRUE((*device)->flush());
  ASSERT_TRUE((*device)->submit(std::array{read(64 * KiB, 64 * KiB, 1 * MiB, 2)}));
  ASSERT_TRUE(drain(**device, 1).at(0).status);
  EXPECT_EQ(memory_.data()[1 * MiB + 5], std::byte{0x5a});
}

INSTANTIATE_TEST_SUITE_P(Backends, FileDeviceTest, testing::Values(IoBackend::uring, IoBackend::threads),
                         [](const auto& which) { return which.param == IoBackend::uring ? "uring" : "threads"; });

}  // namespace
}  // namespace artesian
