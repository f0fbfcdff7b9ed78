// Files as byte sources: what is there, what is not, and what shrank.
#include "stream/file_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>

namespace artesian {
namespace {

class FileSourceTest : public testing::Test {
 protected:
  FileSourceTest() : path_(std::filesystem::path(testing::TempDir()) / "artesian_file_source_test.bin") {
    std::ofstream(path_) << "0123456789";
  }
  ~FileSourceTest() override { std::filesystem::remove(path_); }
  std::filesystem::path path_;
};

TEST_F(FileSourceTest, ReadsAtOffsets) {
  auto source = open_file_source(path_.string());
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ((*source)->size(), 10U);
  EXPECT_EQ((*source)->name(), path_.string());
  std::array<char, 3> text{};
  ASSERT_TRUE((*source)->read(7, std::as_writable_bytes(std::span(text))));
  EXPECT_EQ(std::string(text.data(), 3), "789");
}

TEST_F(FileSourceTest, AFileThatShrankIsCorrupt) {
  auto source = open_file_source(path_.string());
  ASSERT_TRUE(source);
  std::filesystem::resize_file(path_, 8);
  std::array<char, 5> text{};
  const auto read = (*source)->read(5, std::as_writable_bytes(std::span(text)));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::corrupt);
  EXPECT_THAT(read.error().message, testing::HasSubstr("offset 8"));
}

TEST_F(FileSourceTest, WhatIsNoModelIsRefusedWithItsPath) {
  const auto missing = open_model_files(path_.string() + ".gone");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::not_found);
  EXPECT_THAT(missing.error().message, testing::StartsWith(path_.string() + ".gone: "));

  const auto folder = open_model_files(testing::TempDir());
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code, Code::invalid);
  EXPECT_THAT(folder.error().message, testing::HasSubstr("neither a file nor a block device"));

  const auto other = open_model_files(path_.string());
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, testing::EndsWith("offset 0: this is not a GGUF file"));
}

}  // namespace
}  // namespace artesian
