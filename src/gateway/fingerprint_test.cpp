#include "gateway/fingerprint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "platform/process.h"

namespace artesian {
namespace {

namespace fs = std::filesystem;

class FingerprintTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  std::string read(const fs::path& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const fs::path folder_ = fs::temp_directory_path() / fmt::format("artesian-fingerprint-test-{}", own_pid());
  const std::string memory_ = folder_ / "memory";
};

TEST_F(FingerprintTest, EveryByteCounts) {
  const std::string one = write("one", "weights"), same = write("same", "weights"), other = write("other", "weightz");
  EXPECT_EQ(*fingerprint_files({one}, ""), *fingerprint_files({same}, ""));
  EXPECT_NE(*fingerprint_files({one}, ""), *fingerprint_files({other}, ""));
  EXPECT_NE(*fingerprint_files({one, other}, ""), *fingerprint_files({other, one}, ""));
  EXPECT_FALSE(fingerprint_files({folder_ / "none"}, ""));
}

TEST_F(FingerprintTest, AFileThatIsTheSameIsNotReadAgain) {
  const std::string file = "/bin/true";  // nobody has changed it for some time
  const std::string found = *fingerprint_files({file}, memory_);
  EXPECT_EQ(found, *fingerprint_files({file}, ""));
  std::string text = read(memory_);
  ASSERT_NE(text.find(found), std::string::npos);
  text.replace(text.find(found), found.size(), "remembered");
  write("memory", text);
  EXPECT_EQ(*fingerprint_files({file}, memory_), "remembered");
  fs::copy_file(file, folder_ / "copy");
  EXPECT_EQ(*fingerprint_files({folder_ / "copy"}, memory_), found);
}

// Its time would not tell if it were changed again now.
TEST_F(FingerprintTest, AFileThatWasJustChangedIsNotRemembered) {
  const std::string file = write("fresh", "weights");
  ASSERT_TRUE(fingerprint_files({file}, memory_));
  EXPECT_FALSE(fs::exists(memory_));
  EXPECT_FALSE(fs::exists(memory_ + ".new"));
}

TEST_F(FingerprintTest, ABrokenMemoryIsNone) {
  const std::string file = "/bin/true";
  write("memory", "[1, 2");
  EXPECT_EQ(*fingerprint_files({file}, memory_), *fingerprint_files({file}, ""));
  EXPECT_EQ(*fingerprint_files({file}, folder_ / "no folder" / "memory"), *fingerprint_files({file}, ""));
}

}  // namespace
}  // namespace artesian
