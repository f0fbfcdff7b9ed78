#include "platform/uring.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <liburing.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include "base/units.h"
#include "platform/arena.h"
#include "platform/clock.h"
#include "platform/file.h"
#include "platform/nvme.h"

namespace artesian {
namespace {

class UringTest : public testing::Test {
 protected:
  void SetUp() override {
    auto ring = Uring::open(8);
    if (!ring) GTEST_SKIP() << ring.error().message;
    ring_.emplace(std::move(*ring));
    std::string path = testing::TempDir() + "artesian-uring-XXXXXX";
    ::close(::mkstemp(path.data()));
    file_.emplace(File::open(path, {.write = true}).value());
    ::unlink(path.c_str());
    memory_ = Arena::reserve(1 * MiB).value();
    for (std::size_t i = 0; i < 64 * KiB; ++i) memory_.data()[i] = static_cast<std::byte>(i / 4096 + 1);
    ASSERT_TRUE(file_->write(0, memory_.span().first(64 * KiB)));
  }

  UringDone one() {
    EXPECT_EQ(ring_->submit(true), 0);
    std::array<UringDone, 4> done;
    EXPECT_EQ(ring_->reap(done), 1U);
    return done[0];
  }

  std::optional<Uring> ring_;
  std::optional<File> file_;
  Arena memory_;
};

TEST_F(UringTest, ReadsWritesAndReportsErrorsByNumber) {
  const iovec to{memory_.data() + 512 * KiB, 4096};
  ASSERT_TRUE(ring_->prepare({.file = file_->fd(), .offset = 8192, .memory = std::span(&to, 1), .tag = 5}));
  EXPECT_EQ(ring_->prepared(), 1U);
  auto done = one();
  EXPECT_EQ(done.tag, 5U);
  EXPECT_EQ(done.result, 4096);
  EXPECT_EQ(memory_.data()[512 * KiB], std::byte{3});
  EXPECT_EQ(ring_->prepared(), 0U);

  ASSERT_TRUE(ring_->prepare({.write = true, .file = file_->fd(), .offset = 0, .memory = std::span(&to, 1), .tag = 6}));
  EXPECT_EQ(one().result, 4096);
  std::array<std::byte, 1> first{};
  ASSERT_TRUE(file_->read(0, first));
  EXPECT_EQ(first[0], std::byte{3});

  ASSERT_TRUE(ring_->prepare({.file = -1, .offset = 0, .memory = std::span(&to, 1), .tag = 7}));
  done = one();
  EXPECT_EQ(done.tag, 7U);
  EXPECT_EQ(done.result, -EBADF);
}

TEST_F(UringTest, VectorsScatter) {
  const std::array<iovec, 2> to{iovec{memory_.data() + 600 * KiB, 4096}, iovec{memory_.data() + 512 * KiB, 4096}};
  ASSERT_TRUE(ring_->prepare({.file = file_->fd(), .offset = 4096, .memory = to, .tag = 1}));
  EXPECT_EQ(one().result, 8192);
  EXPECT_EQ(memory_.data()[600 * KiB], std::byte{2});
  EXPECT_EQ(memory_.data()[512 * KiB], std::byte{3});
}

TEST_F(UringTest, SaysWhenItsQueueIsFullAndTakesMoreAfterSubmit) {
  const iovec to{memory_.data() + 512 * KiB, 4096};
  const UringIo io{.file = file_->fd(), .offset = 0, .memory = std::span(&to, 1), .tag = 1};
  unsigned taken = 0;
  while (ring_->prepare(io)) ASSERT_LE(++taken, 64U);
  EXPECT_GE(taken, 8U);
  EXPECT_EQ(ring_->submit(false), 0);
  EXPECT_TRUE(ring_->prepare(io));
  EXPECT_EQ(ring_->submit(false), 0);
  std::array<UringDone, 64> done;
  for (std::size_t got = 0; got < taken + 1;) {
    const std::size_t some = ring_->reap(done);
    if (some == 0) ring_->wait_only();
    got += some;
  }
  EXPECT_EQ(ring_->reap(done), 0U);
}

TEST_F(UringTest, AWaitEndsAtItsTimeout) {
  EXPECT_EQ(ring_->submit(true, Nanos{1000}), -ETIME);
  EXPECT_EQ(ring_->submit(true, Nanos{-5}), -ETIME);
}

TEST_F(UringTest, RegistersFilesAndMemoryAndLetsGoOfIt) {
  const int fd = file_->fd();
  ASSERT_TRUE(ring_->register_files(std::span(&fd, 1)));
  if (!ring_->register_memory(memory_.span())) GTEST_SKIP() << "the system does not let memory be registered";
  const iovec to{memory_.data() + 512 * KiB, 4096};
  const UringIo io{.file = 0, .offset = 12288, .memory = std::span(&to, 1), .tag = 1};
  ASSERT_TRUE(ring_->prepare(io));
  EXPECT_EQ(one().result, 4096);
  EXPECT_EQ(memory_.data()[512 * KiB], std::byte{4});
  // Its pages may be given back only now; a read that still used the old ones would not be seen.
  ring_->unregister_memory(memory_.span());
  memory_.release(0, memory_.size());
  ASSERT_TRUE(ring_->prepare(io));
  EXPECT_EQ(one().result, 4096);
  EXPECT_EQ(memory_.data()[512 * KiB], std::byte{4});
}

TEST_F(UringTest, MemoryThatIsNotThereIsNotRegistered) {
  EXPECT_FALSE(ring_->register_memory({}));
  EXPECT_FALSE(ring_->register_memory({reinterpret_cast<std::byte*>(4096), 8192}));
}

TEST(UringEncoding, AWriteNamesItsStreamInByte44) {
  const iovec memory{reinterpret_cast<void*>(0x1000), 0x2000};
  std::array<std::uint8_t, 64> bytes{};
  io_uring_sqe entry{};
  encode_uring({.write = true, .file = 3, .offset = 0x4000, .memory = {&memory, 1}, .write_stream = 5}, -1, entry);
  std::memcpy(bytes.data(), &entry, sizeof(entry));
  const std::array<std::uint8_t, 64> want{IORING_OP_WRITE,
                                          0,
                                          0,
                                          0,
                                          3,
                                          0,
                                          0,
                                          0,  // the file
                                          0,
                                          0x40,
                                          0,
                                          0,
                                          0,
                                          0,
                                          0,
                                          0,  // offset
                                          0,
                                          0x10,
                                          0,
                                          0,
                                          0,
                                          0,
                                          0,
                                          0,  // address
                                          0,
                                          0x20,
                                          0,
                                          0,
                                          0,
                                          0,
                                          0,
                                          0,  // bytes, no flags
                                          0,
                                          0,
                                          0,
                                          0,
                                          0,
                                          0,
                                          0,
                                          0,  // the caller's tag
                                          0,
                                          0,
                                          0,
                                          0,
                                          5};  // no registered memory; the stream
  EXPECT_EQ(bytes, want);
  encode_uring({.file = 3, .offset = 0x4000, .memory = {&memory, 1}, .write_stream = 5}, 2, entry);
  std::memcpy(bytes.data(), &entry, sizeof(entry));
  EXPECT_EQ(bytes[0], IORING_OP_READ_FIXED);
  EXPECT_EQ(bytes[40], 2);
  EXPECT_EQ(bytes[44], 0);  // a read has none
}

TEST(UringEncoding, ACommandIsInTheSecondHalf) {
  union {
    io_uring_sqe entry;
    std::array<std::uint8_t, 128> bytes;
  } both{.bytes = {}};
  std::array<std::byte, 4096> memory{};
  const nvme_uring_cmd command = nvme_placed_write(1, 2, 4096, memory, 3);
  encode_uring({.file = 9, .command = &command}, -1, both.entry);
  EXPECT_EQ(both.bytes[0], IORING_OP_URING_CMD);
  EXPECT_EQ(both.bytes[4], 9);
  const std::array<std::uint8_t, 4> number{0x80, 'N', 0x48,
                                           0xc0};  // NVME_URING_CMD_IO: read and write, 72 bytes, N, 0x80
  EXPECT_EQ(std::memcmp(&both.bytes[8], number.data(), number.size()), 0);
  EXPECT_EQ(std::memcmp(&both.bytes[48], &command, sizeof(command)), 0);
  for (std::size_t i = 48 + sizeof(command); i < 128; ++i) EXPECT_EQ(both.bytes[i], 0) << i;
}

// A ring for commands does what others do, and the kernel takes a command from it: /dev/null, where it knows any, says
// 0.
TEST_F(UringTest, ARingForCommandsTakesBoth) {
  auto ring = Uring::open(8, true);
  ASSERT_TRUE(ring) << ring.error().message;
  ring_.emplace(std::move(*ring));
  const iovec read{memory_.data() + 512 * KiB, 8 * KiB};
  ASSERT_TRUE(ring_->prepare({.file = file_->fd(), .offset = 4096, .memory = {&read, 1}, .tag = 7}));
  const auto done = one();
  EXPECT_EQ(done.tag, 7U);
  EXPECT_EQ(done.result, static_cast<int>(8 * KiB));
  EXPECT_EQ(memory_.data()[512 * KiB], std::byte{2});
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const nvme_uring_cmd command = nvme_placed_write(1, 0, 4096, memory_.span().first(4 * KiB), 1);
  ASSERT_TRUE(ring_->prepare({.file = null, .tag = 8, .command = &command}));
  const auto answered = one();
  ::close(null);
  EXPECT_EQ(answered.tag, 8U);
  EXPECT_TRUE(answered.result == 0 || answered.result == -EOPNOTSUPP) << answered.result;
}

}  // namespace
}  // namespace artesian
