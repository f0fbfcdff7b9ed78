#include "platform/page_advice.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <fstream>
#include <string>
#include <vector>

namespace artesian {
namespace {

// The flags of the mapping that holds an address, from /proc/self/smaps ("rr": random, "lo": locked).
std::string flags_at(const void* address) {
  std::ifstream smaps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) inside = begin <= wanted && wanted < end;
    if (inside && line.starts_with("VmFlags:")) return line;
  }
  return {};
}

class PageAdvice : public testing::Test {
 protected:
  static constexpr std::size_t bytes = 8 * 4096;
  void SetUp() override {
    memory_ = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory_, MAP_FAILED);
  }
  void TearDown() override { munmap(memory_, bytes); }
  std::span<const std::byte> part(std::size_t from, std::size_t size) const {
    return {static_cast<const std::byte*>(memory_) + from, size};
  }
  void* memory_ = nullptr;
};

TEST_F(PageAdvice, CoversWholePages) {
  advise_random(part(4096 + 100, 10));
  EXPECT_EQ(flags_at(part(0, 1).data()).find(" rr"), std::string::npos);
  EXPECT_NE(flags_at(part(4096, 1).data()).find(" rr"), std::string::npos);
  EXPECT_EQ(flags_at(part(2 * 4096, 1).data()).find(" rr"), std::string::npos);
}

TEST_F(PageAdvice, KeepsPagesOrSaysThatItCannot) {
  const bool kept = keep_resident(part(2 * 4096 - 1, 2));
  EXPECT_EQ(flags_at(part(4096, 1).data()).find(" lo") != std::string::npos, kept);
  EXPECT_EQ(flags_at(part(2 * 4096, 1).data()).find(" lo") != std::string::npos, kept);
  EXPECT_TRUE(keep_resident({}));
  EXPECT_FALSE(keep_resident({static_cast<const std::byte*>(nullptr) + 4096, 4096}));  // nothing is mapped there
}

TEST_F(PageAdvice, OfNothingIsNothing) {
  advise_random({});
  advise_soon({});
  advise_soon(part(0, bytes));
  EXPECT_EQ(part(0, 1)[0], std::byte{0});
}

}  // namespace
}  // namespace artesian
