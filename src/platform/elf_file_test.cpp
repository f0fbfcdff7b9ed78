#include "platform/elf_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "platform/process.h"

namespace artesian {
namespace {

class ElfFile : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = (std::filesystem::temp_directory_path() / fmt::format("artesian-elf-{}", ::getpid())).string();
    self_ = own_executable().value();
  }
  void TearDown() override { std::filesystem::remove(path_); }
  void write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  std::string path_, self_;
};

extern "C" int artesian_elf_test_marker() {
  return 1;
}

TEST_F(ElfFile, KnowsOwnLibraries) {
  const auto libraries = linked_libraries(self_, "");
  ASSERT_TRUE(libraries);
  const auto libc = std::find_if(libraries->begin(), libraries->end(),
                                 [](const auto& library) { return library.name == "libc.so.6"; });
  ASSERT_NE(libc, libraries->end());
  EXPECT_TRUE(std::filesystem::exists(libc->path)) << libc->path;
}

TEST_F(ElfFile, KnowsOwnSymbolsAndText) {
  EXPECT_EQ(artesian_elf_test_marker(), 1);
  static volatile const char text[] = "a text that only this test program holds";
  EXPECT_EQ(text[0], 'a');
  EXPECT_TRUE(elf_defines(self_, "artesian_elf_test_mark").value());
  EXPECT_FALSE(elf_defines(self_, std::string("artesian_elf_test_mark") + "-none").value());
  EXPECT_TRUE(file_contains(self_, "a text that only this test program holds").value());
  EXPECT_FALSE(file_contains(self_, std::string("a text that nobody ") + "holds at all").value());
}

TEST_F(ElfFile, RefusesWhatIsNoElf) {
  write("#!/bin/sh\nexit 0\n");
  EXPECT_EQ(read_elf(path_).error().code, Code::invalid);
  write("");
  EXPECT_EQ(linked_libraries(path_, "").error().code, Code::invalid);
  EXPECT_EQ(read_elf("/nonexistent").error().code, Code::not_found);
  EXPECT_FALSE(read_elf("/"));
}

TEST_F(ElfFile, SurvivesDamage) {
  // /bin/true is small: cut it at every so many bytes, and set bytes of its header and tables to what overflows.
  std::ifstream in("/bin/true", std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  ASSERT_GT(whole.size(), 4096u);
  for (std::size_t size = 0; size < whole.size(); size += size < 1024 ? 61 : 4093) {
    write(whole.substr(0, size));
    std::ignore = linked_libraries(path_, "");
    std::ignore = elf_defines(path_, "x");
  }
  for (std::size_t at = 16; at < 1024; at += 4) {
    std::string bad = whole;
    bad.replace(at, 4, "\xff\xff\xff\x7f");
    write(bad);
    std::ignore = linked_libraries(path_, "");
    std::ignore = elf_defines(path_, "x");
  }
}

TEST_F(ElfFile, FindsTextAcrossChunks) {
  const std::string text = "GGML_ASSERT";
  for (std::size_t back = 0; back <= text.size(); ++back) {
    write(std::string((1U << 20) - back, 'x') + text + std::string(100, 'y'));
    EXPECT_TRUE(file_contains(path_, text).value()) << back;
  }
}

}  // namespace
}  // namespace artesian
