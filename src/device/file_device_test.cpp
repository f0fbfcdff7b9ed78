// What only a device over files can do; what every device must do is in device_conformance_test.cpp.
#include "device/file_device.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>

#include "base/units.h"
#include "platform/arena.h"
#include "platform/clock.h"
#include "platform/file.h"

namespace artesian {
namespace {

std::byte pattern(std::uint64_t offset) {
  return static_cast<std::byte>((offset * 2654435761U) >> 13);
}

class FileDeviceTest : public testing::TestWithParam<IoBackend> {
 protected:
  static constexpr std::uint64_t file_bytes = 4 * MiB;

  void SetUp() override {
    path_ = testing::TempDir() + "artesian-device-XXXXXX";
    fd_ = ::mkstemp(path_.data());
    ASSERT_GE(fd_, 0);
    memory_ = std::move(*Arena::reserve(8 * MiB));
    const auto content = memory_.span().first(file_bytes);
    for (std::uint64_t i = 0; i < file_bytes; ++i) content[i] = pattern(i);
    ASSERT_TRUE(File::open(path_, {.write = true})->write(0, content));
    std::ranges::fill(content, std::byte{0});
  }
  void TearDown() override {
    ::close(fd_);
    ::unlink(path_.c_str());
  }

  FileDeviceOptions options() {
    return {.paths = {path_}, .backend = GetParam(), .report = [this](std::string_view s) { said_.emplace_back(s); }};
  }
  std::unique_ptr<Device> open(const FileDeviceOptions& how) {
    auto device = open_file_device(how, clock_);
    EXPECT_TRUE(device) << device.error().message;
    return std::move(*device);
  }

  IoRequest read(std::uint64_t offset, std::uint64_t bytes, std::uint64_t at, std::uint64_t tag) {
    return {.offset = offset, .buffer = memory_.span().subspan(at, bytes), .tag = tag};
  }

  std::vector<IoCompletion> drain(Device& device, std::size_t count) {
    std::vector<IoCompletion> all(count);
    for (std::size_t got = 0; got < count;) {
      const std::size_t some = device.wait(std::span(all).subspan(got), clock_.now() + std::chrono::seconds(20));
      EXPECT_GT(some, 0U);
      if (some == 0) break;
      got += some;
    }
    return all;
  }

  SteadyClock clock_;
  std::string path_;
  int fd_ = -1;
  Arena memory_;
  std::vector<std::string> said_;
};

TEST_P(FileDeviceTest, AFileIgnoresWhereBytesBelong) {
  auto how = options();
  how.write = true;
  const auto device = open(how);
  EXPECT_EQ(device->facts().placement, "no placement: a file of a file system");
  auto write = read(8 * KiB, 4 * KiB, 0, 1);
  write.op = IoOp::write;
  write.placement = {3};
  std::ranges::fill(write.buffer, std::byte{0x5a});
  ASSERT_TRUE(device->submit(std::span(&write, 1)));
  EXPECT_TRUE(drain(*device, 1)[0].status);
  std::array<std::byte, 2> back{};
  ASSERT_TRUE(File::open(path_, {})->read(12 * KiB - 1, back));
  EXPECT_EQ(back, (std::array{std::byte{0x5a}, pattern(12 * KiB)}));
}

TEST_P(FileDeviceTest, NeighboursAreOneOperationUpToTheLimit) {
  auto how = options();
  how.queue_depth_max = 1;
  std::vector<IoRequest> requests;
  for (std::uint64_t i = 0; i < 8; ++i) requests.push_back(read(i * 64 * KiB, 64 * KiB, i * 64 * KiB, i));
  for (const std::uint64_t limit : {0 * KiB, 256 * KiB, 1 * MiB}) {
    how.merge_bytes = limit;
    auto device = open(how);
    ASSERT_TRUE(device->submit(requests));
    const std::uint32_t together = limit == 0 ? 1 : limit == 256 * KiB ? 4 : 8;
    EXPECT_EQ(device->counters().in_flight, together);  // depth 1: all that is there is one operation
    EXPECT_EQ(device->counters().queued, 8 - together);
    for (const auto& done : drain(*device, 8)) EXPECT_TRUE(done.status && done.bytes == 64 * KiB);
    EXPECT_EQ(device->counters().reads, 8U);
  }
  for (std::uint64_t i = 0; i < 512 * KiB; ++i) ASSERT_EQ(memory_.data()[i], pattern(i));
}

TEST_P(FileDeviceTest, OnlyTrueNeighboursAreJoined) {
  auto how = options();
  how.queue_depth_max = 1;
  how.write = true;
  auto device = open(how);
  auto other_class = read(4096, 4096, 4096, 2);
  other_class.io_class = IoClass::staged;
  auto write = read(4096, 4096, 4096, 2);
  write.op = IoOp::write;
  for (const auto& second : {other_class, write, read(8192, 4096, 4096, 2), read(0, 4096, 4096, 2)}) {
    ASSERT_TRUE(device->submit(std::array{read(0, 4096, 0, 1), second}));
    EXPECT_EQ(device->counters().in_flight, 1U);
    for (const auto& done : drain(*device, 2)) EXPECT_TRUE(done.status);
  }
}

TEST_P(FileDeviceTest, OneThatFailsDoesNotTakeItsNeighboursWithIt) {
  void* hole = ::mmap(nullptr, 64 * KiB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);  // no read can land there
  ASSERT_NE(hole, MAP_FAILED);
  auto device = open(options());
  std::vector<IoRequest> requests;
  for (std::uint64_t i = 0; i < 4; ++i) requests.push_back(read(i * 64 * KiB, 64 * KiB, i * 64 * KiB, i));
  requests[1].buffer = {static_cast<std::byte*>(hole), 64 * KiB};
  ASSERT_TRUE(device->submit(requests));
  for (const auto& done : drain(*device, 4)) {
    if (done.tag != 1) {
      ASSERT_TRUE(done.status) << done.status.error().message;
      for (std::uint64_t i = done.tag * 64 * KiB; i < (done.tag + 1) * 64 * KiB; ++i) {
        ASSERT_EQ(memory_.data()[i], pattern(i));
      }
      continue;
    }
    ASSERT_FALSE(done.status);
    EXPECT_EQ(done.status.error().code, Code::device_failed);
    EXPECT_EQ(done.status.error().message, path_ + ": offset 65536: read of 65536 bytes: Bad address");
  }
  EXPECT_EQ(device->counters().in_flight, 0U);
  device.reset();
  ::munmap(hole, 64 * KiB);
}

TEST_P(FileDeviceTest, AShortReadSaysHowMuchArrived) {
  auto device = open(options());
  ASSERT_EQ(::truncate(path_.c_str(), 1 * MiB - 8192), 0);
  ASSERT_TRUE(device->submit(std::array{read(1 * MiB - 64 * KiB, 64 * KiB, 0, 1)}));
  const auto done = drain(*device, 1)[0];
  ASSERT_FALSE(done.status);
  EXPECT_EQ(done.status.error().message, path_ + ": offset 983040: short read, 57344 of 65536 bytes");
  EXPECT_EQ(done.bytes, 56 * KiB);
}

TEST_P(FileDeviceTest, ReadsThroughTheCacheWhereDirectIsRefusedAndSaysSoOnce) {
  const std::string path = "/sys/kernel/notes";  // has a size and content, and no direct I/O
  const auto plain = File::open(path, {});
  if (!plain) GTEST_SKIP() << path << " is not there";
  auto how = options();
  how.paths = {path, path};
  auto device = open(how);
  EXPECT_FALSE(device->facts().direct);
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_EQ(said_[0], path + ": the file system refuses O_DIRECT; reading through the page cache");
  const std::uint64_t bytes = std::min<std::uint64_t>(device->facts().file_bytes[1], 4096);
  auto request = read(0, 4096, 0, 1);
  request.file = 1;
  ASSERT_TRUE(device->submit(std::span(&request, 1)));
  const auto done = drain(*device, 1)[0];
  ASSERT_TRUE(done.status) << done.status.error().message;
  EXPECT_EQ(done.bytes, bytes);
  std::vector<std::byte> content(bytes);
  ASSERT_TRUE(plain->read(0, content));
  EXPECT_TRUE(std::ranges::equal(memory_.span().first(bytes), content));
  how.direct = DirectIo::on;
  EXPECT_EQ(open_file_device(how, clock_).error().code, Code::rejected);
}

TEST_P(FileDeviceTest, OpensDescriptorsThatOthersHold) {
  ASSERT_EQ(::unlink(path_.c_str()), 0);  // nothing but the descriptor leads there
  const std::array files{OpenFile{fd_, "shard 1"}, OpenFile{fd_, "shard 2"}};
  auto device = open_file_device_fds(files, options(), clock_);
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_EQ((*device)->facts().file_bytes, (std::vector<std::uint64_t>{file_bytes, file_bytes}));
  EXPECT_NE((*device)->facts().name.find("shard 1"), std::string::npos);
  auto request = read(64 * KiB, 64 * KiB, 0, 1);
  request.file = 1;
  ASSERT_TRUE((*device)->submit(std::span(&request, 1)));
  ASSERT_TRUE(drain(**device, 1)[0].status);
  for (std::uint64_t i = 0; i < 64 * KiB; ++i) ASSERT_EQ(memory_.data()[i], pattern(64 * KiB + i));
  const std::array nothing{OpenFile{-1, "shard 3"}};
  EXPECT_FALSE(open_file_device_fds(nothing, options(), clock_));
}

TEST_P(FileDeviceTest, MakesFilesOfTheSizeAskedFor) {
  auto how = options();
  how.paths = {path_ + "-new"};
  EXPECT_EQ(open_file_device(how, clock_).error().code, Code::not_found);
  how.write = how.create = true;
  how.create_bytes = 1 * MiB;
  auto device = open(how);
  EXPECT_EQ(device->facts().file_bytes[0], 1 * MiB);
  auto write = read(1 * MiB - 4096, 4096, 0, 1);
  write.op = IoOp::write;
  ASSERT_TRUE(device->submit(std::span(&write, 1)));
  EXPECT_TRUE(drain(*device, 1)[0].status);
  EXPECT_TRUE(device->flush());
  device.reset();
  how.create_bytes = 4096;  // never shorter
  EXPECT_EQ(open(how)->facts().file_bytes[0], 1 * MiB);
  ::unlink(how.paths[0].c_str());
}

TEST_P(FileDeviceTest, RefusesWritesToWhatIsOpenForReading) {
  auto device = open(options());
  auto write = read(0, 4096, 0, 1);
  write.op = IoOp::write;
  EXPECT_EQ(device->submit(std::span(&write, 1)).error().message, path_ + ": offset 0: is open for reading only");
  EXPECT_EQ(device->discard(0, 0, 4096).error().code, Code::invalid);
  EXPECT_TRUE(device->flush());
}

TEST_P(FileDeviceTest, RefusesOptionsThatMakeNoSense) {
  auto how = options();
  for (const std::uint32_t depth : {0U, 5000U}) {
    how.queue_depth_max = depth;
    EXPECT_EQ(open_file_device(how, clock_).error().code, Code::invalid);
  }
  how.queue_depth_max = 1;
  how.paths.clear();
  EXPECT_EQ(open_file_device(how, clock_).error().message, "a device needs at least one file");
}

TEST_P(FileDeviceTest, CallersMayBeDifferentThreadsOneAfterTheOther) {
  auto device = open(options());
  std::vector<IoRequest> requests;
  for (std::uint64_t i = 0; i < 64; ++i) requests.push_back(read(i * 64 * KiB, 4 * KiB, i * 4 * KiB, i));
  std::thread submitter([&] { EXPECT_TRUE(device->submit(requests)); });
  submitter.join();  // gone, with its requests under way
  for (const auto& done : drain(*device, 64)) {
    ASSERT_TRUE(done.status) << done.status.error().message;
    ASSERT_EQ(memory_.data()[done.tag * 4 * KiB + 5], pattern(done.tag * 64 * KiB + 5));
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, FileDeviceTest, testing::Values(IoBackend::uring, IoBackend::threads),
                         [](const auto& which) { return which.param == IoBackend::uring ? "uring" : "threads"; });

// Like a container's filter: io_uring_setup is not permitted, for the calling thread.
bool forbid_uring() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{static_cast<unsigned short>(std::size(program)), program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(FileDevice, UsesThreadsWhereTheRingIsForbiddenAndSaysSoOnce) {
  std::string path = testing::TempDir() + "artesian-device-XXXXXX";
  const int fd = ::mkstemp(path.data());
  ASSERT_EQ(::ftruncate(fd, 64 * KiB), 0);
  ::close(fd);
  auto memory = Arena::reserve(4096).value();
  std::thread confined([&] {
    ASSERT_TRUE(forbid_uring());
    const SteadyClock clock;
    std::vector<std::string> said;
    FileDeviceOptions how{.paths = {path}, .report = [&](std::string_view what) { said.emplace_back(what); }};
    auto device = open_file_device(how, clock);
    ASSERT_TRUE(device) << device.error().message;
    EXPECT_EQ(said, (std::vector<std::string>{
                        "io_uring cannot be set up: Operation not permitted; reading with a pool of threads"}));
    EXPECT_TRUE((*device)->facts().name.starts_with("threads"));
    const IoRequest request{.buffer = memory.span(), .tag = 1};
    ASSERT_TRUE((*device)->submit(std::span(&request, 1)));
    std::array<IoCompletion, 1> done;
    ASSERT_EQ((*device)->wait(done, Nanos::max()), 1U);
    EXPECT_TRUE(done[0].status);
    how.backend = IoBackend::uring;
    EXPECT_EQ(open_file_device(how, clock).error().code, Code::rejected);
  });
  confined.join();
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace artesian
