#include "platform/uring.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string>

#include "base/units.h"
#include "platform/arena.h"
#include "platform/clock.h"
#include "platform/file.h"

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

}  // namespace
}  // namespace artesian
