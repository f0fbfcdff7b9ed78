#include "platform/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/units.h"
#include "platform/arena.h"
#include "platform/clock.h"

namespace artesian {
namespace {

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "artesian-file-XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    path_ = folder_ + "/file";
  }
  void TearDown() override {
    ::unlink(path_.c_str());
    ::rmdir(folder_.c_str());
  }

  std::string folder_, path_;
};

TEST_F(FileTest, WritesAndReadsAllOfIt) {
  auto file = File::open(path_, {.write = true, .create = true});
  ASSERT_TRUE(file) << file.error().message;
  std::vector<std::byte> bytes(10'000), back(10'000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  ASSERT_TRUE(file->write(100, bytes));
  ASSERT_TRUE(file->sync_data());
  EXPECT_EQ(file->size().value(), 10'100U);
  ASSERT_TRUE(file->read(100, back));
  EXPECT_EQ(back, bytes);
  EXPECT_FALSE(file->direct());
}

TEST_F(FileTest, SaysWhereAFileEndsTooEarly) {
  auto file = File::open(path_, {.write = true, .create = true});
  ASSERT_TRUE(file);
  std::vector<std::byte> bytes(1000);
  ASSERT_TRUE(file->write(0, bytes));
  const auto read = file->read(500, bytes);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::corrupt);
  EXPECT_EQ(read.error().message, path_ + ": offset 1000: ends 500 bytes too early");
}

TEST_F(FileTest, AnUnnamedFileLeavesNothingBehind) {
  auto file = File::open_unnamed(folder_);
  ASSERT_TRUE(file) << file.error().message;
  const std::vector<std::byte> bytes(4096, std::byte{7});
  ASSERT_TRUE(file->write(0, bytes));
  auto again = File::reopen(file->fd(), file->path(), {.write = true});
  ASSERT_TRUE(again) << again.error().message;
  std::vector<std::byte> back(4096);
  ASSERT_TRUE(again->read(0, back));
  EXPECT_EQ(back, bytes);
  EXPECT_EQ(::rmdir(folder_.c_str()), 0);  // nothing in it
  EXPECT_EQ(File::open_unnamed(folder_).error().code, Code::not_found);
}

TEST_F(FileTest, SaysWhatCannotBeOpened) {
  EXPECT_EQ(File::open(path_, {}).error().code, Code::not_found);
  EXPECT_EQ(File::open(folder_, {}).error().code, Code::invalid);
  EXPECT_EQ(File::open("/dev/null", {}).error().message, "/dev/null: is neither a file nor a block device");
  EXPECT_FALSE(File::open(folder_, {.write = true}));
}

TEST_F(FileTest, WritingToAFileOpenForReadingIsAnError) {
  ASSERT_TRUE(File::open(path_, {.write = true, .create = true}));
  const auto file = File::open(path_, {});
  ASSERT_TRUE(file);
  const std::vector<std::byte> bytes(10);
  const auto written = file->write(5, bytes);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Code::device_failed);
  EXPECT_NE(written.error().message.find(path_ + ": write at offset 5"), std::string::npos);
}

TEST_F(FileTest, DirectReadsPastTheCacheOrIsRefused) {
  {
    auto file = File::open(path_, {.write = true, .create = true});
    ASSERT_TRUE(file && file->allocate(64 * KiB));
    EXPECT_EQ(file->size().value(), 64 * KiB);
    ASSERT_TRUE(file->sync_data());
  }
  const auto direct = File::open(path_, {.direct = true});
  if (!direct) {
    EXPECT_EQ(direct.error().code, Code::rejected);
    return;
  }
  EXPECT_TRUE(direct->direct());
  EXPECT_GE(direct->direct_alignment(), 1U);
  auto memory = Arena::reserve(8192);
  ASSERT_TRUE(memory);
  EXPECT_TRUE(direct->read(4096, memory->span()));
}

// Files of sysfs have a size and content, and no direct I/O.
TEST_F(FileTest, AFileSystemWithoutDirectIoIsRejectedByName) {
  const std::string path = "/sys/kernel/notes";
  if (!File::open(path, {})) GTEST_SKIP() << path << " is not there";
  const auto direct = File::open(path, {.direct = true});
  ASSERT_FALSE(direct);
  EXPECT_EQ(direct.error().code, Code::rejected);
  EXPECT_EQ(direct.error().message, path + ": the file system refuses O_DIRECT");
}

TEST_F(FileTest, ReopensAndDuplicatesAFileThatLostItsName) {
  const int fd = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::ftruncate(fd, 8192), 0);
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  auto reopened = File::reopen(fd, "the model", {});
  auto duplicate = File::duplicate(fd, "the model");
  ::close(fd);
  std::vector<std::byte> bytes(8192, std::byte{1});
  ASSERT_TRUE(reopened && duplicate);
  EXPECT_TRUE(reopened->read(0, bytes));
  EXPECT_EQ(bytes[0], std::byte{0});
  EXPECT_TRUE(duplicate->read(0, bytes));
  EXPECT_EQ(duplicate->path(), "the model");
  EXPECT_NE(File::reopen(-1, "nothing", {}).error().message.find("nothing: "), std::string::npos);
  EXPECT_FALSE(File::duplicate(-1, "nothing"));
}

TEST_F(FileTest, PunchesHolesAndKeepsTheSize) {
  auto file = File::open(path_, {.write = true, .create = true});
  ASSERT_TRUE(file);
  std::vector<std::byte> bytes(64 * KiB, std::byte{3});
  ASSERT_TRUE(file->write(0, bytes));
  const auto punched = file->punch_hole(16 * KiB, 16 * KiB);
  if (!punched && punched.error().code == Code::rejected) GTEST_SKIP() << punched.error().message;
  ASSERT_TRUE(punched) << punched.error().message;
  EXPECT_EQ(file->size().value(), 64 * KiB);
  ASSERT_TRUE(file->read(0, bytes));
  EXPECT_EQ(bytes[16 * KiB - 1], std::byte{3});
  EXPECT_EQ(bytes[16 * KiB], std::byte{0});
  EXPECT_EQ(bytes[32 * KiB], std::byte{3});
  file->forget_cached(0, 64 * KiB);
}

TEST_F(FileTest, AllocatesNoMoreThanTheDriveHas) {
  auto file = File::open(path_, {.write = true, .create = true});
  ASSERT_TRUE(file);
  const auto allocated = file->allocate(1ULL << 60);
  ASSERT_FALSE(allocated);
  EXPECT_EQ(allocated.error().code, Code::device_failed);
  EXPECT_NE(allocated.error().message.find(path_), std::string::npos);
}

TEST_F(FileTest, MovesTheDescriptor) {
  auto file = File::open(path_, {.write = true, .create = true});
  ASSERT_TRUE(file);
  const int fd = file->fd();
  File other = std::move(*file);
  EXPECT_EQ(other.fd(), fd);
  EXPECT_EQ(file->fd(), -1);
  EXPECT_EQ(other.path(), path_);
}

TEST(SteadyClock, NeverGoesBack) {
  const SteadyClock clock;
  Nanos last = clock.now();
  for (int i = 0; i < 1000; ++i) {
    const Nanos now = clock.now();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(File, HasOneLockWhoeverOpensIt) {
  const std::string path = testing::TempDir() + "artesian-lock-test";
  auto first = File::open(path, {.write = true, .create = true});
  ASSERT_TRUE(first && first->lock(Nanos{0}));
  {
    auto second = File::open(path, {.write = true});
    const auto refused = second->lock(Nanos{0});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::rejected);
    EXPECT_NE(refused.error().message.find(path), std::string::npos);
    EXPECT_TRUE(first->lock(Nanos{0}));
  }
  ASSERT_TRUE(first->allocate(10'000));
  ASSERT_TRUE(first->truncate(5000));
  EXPECT_EQ(first->size().value(), 5000U);
  EXPECT_FALSE(first->block_device());
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace artesian
