#include "platform/shared_mapping.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

namespace artesian {
namespace {

class SharedFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("artesian-shared-{}", ::getpid());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_.string() + "/" + name; }
  std::filesystem::path folder_;
};

TEST_F(SharedFiles, WhatOneWritesTheOtherReads) {
  auto mapping = SharedMapping::open(path("a"), 8192);
  ASSERT_TRUE(mapping);
  struct stat info{};
  ASSERT_EQ(::stat(path("a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(info.st_size, 8192);
  mapping->bytes()[5000] = std::byte{42};
  auto again = SharedMapping::open(path("a"), 8192);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->bytes()[5000], std::byte{42});
  auto reader = SharedFileReader::open(path("a"));
  ASSERT_TRUE(reader);
  std::array<std::byte, 2> two{};
  ASSERT_TRUE(reader->read(4999, two));
  EXPECT_EQ(two[1], std::byte{42});
  EXPECT_EQ(reader->read(8191, two).error().code, Code::corrupt);
}

TEST_F(SharedFiles, RefusesLinksAndMissingFolders) {
  ASSERT_EQ(::symlink("/etc/passwd", path("link").c_str()), 0);
  EXPECT_FALSE(SharedMapping::open(path("link"), 4096));
  EXPECT_FALSE(SharedMapping::open(path("no/such"), 4096));
  EXPECT_EQ(SharedFileReader::open(path("none")).error().code, Code::not_found);
}

TEST_F(SharedFiles, TheRuntimeFolderIsPrivate) {
  const auto folder = private_runtime_folder(folder_.string());
  ASSERT_TRUE(folder);
  EXPECT_EQ(*folder, path("artesian"));
  struct stat info{};
  ASSERT_EQ(::stat(folder->c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_EQ(private_runtime_folder(folder_.string()).value(), *folder);
  // One that others may write to is not used.
  ::chmod(folder->c_str(), 0777);
  EXPECT_NE(private_runtime_folder(folder_.string()).value_or("refused"), *folder);
}

TEST_F(SharedFiles, ListsAndRemoves) {
  std::ofstream(path("b"));
  std::ofstream(path("a"));
  EXPECT_EQ(list_folder(folder_.string()).value(), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(remove_file(path("a")));
  EXPECT_TRUE(remove_file(path("a")));  // gone is gone
  EXPECT_FALSE(file_exists(path("a")));
  EXPECT_TRUE(file_exists(path("b")));
  EXPECT_FALSE(list_folder(path("none")));
}

}  // namespace
}  // namespace artesian
