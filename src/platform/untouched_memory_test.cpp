#include "platform/untouched_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

namespace artesian {
namespace {

// Addresses, sizes and flags as the kernel writes them; lines that do not matter are left out.
constexpr const char* recorded =
    "55d0c0000000-55d0c0100000 rw-p 00000000 00:00 0                          [heap]\n"
    "Size:               1024 kB\nRss:                 900 kB\nVmFlags: rd wr mr mw me ac \n"
    "7f0000000000-7f0001000000 rw-p 00000000 00:00 0 \n"
    "Size:              16384 kB\nRss:                   4 kB\nVmFlags: rd wr mr mw me ac \n"
    "7f0002000000-7f0042000000 rw-p 00000000 00:00 0 \n"
    "Size:            1048576 kB\nRss:                   0 kB\nVmFlags: rd wr mr mw me nr \n"
    "7f0050000000-7f0050001000 ---p 00000000 00:00 0 \n"
    "Size:                  4 kB\nRss:                   0 kB\nVmFlags: mr mw me ac \n"
    "7f0050001000-7f0050800000 rw-p 00000000 00:00 0 \n"
    "Size:               8188 kB\nRss:                  12 kB\nVmFlags: rd wr mr mw me ac \n"
    "7f0060000000-7f0070000000 r--p 00000000 fe:00 260386                     /models/some model.gguf\n"
    "Size:             262144 kB\nRss:                   0 kB\nVmFlags: rd mr mw me \n"
    "7f0080000000-7f0080100000 rw-s 00000000 00:01 77                         /dev/shm/x\n"
    "Size:               1024 kB\nRss:                   0 kB\nVmFlags: rd wr mr mw me ms \n"
    "7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]\n"
    "Size:                132 kB\nRss:                  20 kB\nVmFlags: rd wr mr mw me gd ac \n";

TEST(UntouchedMemory, CountsWhatIsAllocatedAndNotThere) {
  EXPECT_EQ(untouched_bytes(recorded), (1024U - 900 + 16384 - 4) << 10);
}

TEST(UntouchedMemory, NothingAndNonsenseAreNothing) {
  EXPECT_EQ(untouched_bytes(""), 0U);
  EXPECT_EQ(untouched_bytes("Rss: 5 kB\nnot a mapping\n-\n7f-6f rw-p 0 00:00 0\n"), 0U);
}

TEST(UntouchedMemory, FollowsThisProcess) {
  constexpr std::size_t bytes = 64U << 20;
  const std::uint64_t before = untouched_bytes();
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const std::uint64_t allocated = untouched_bytes();
  EXPECT_GE(allocated, before + bytes / 2);  // others come and go beside it
  std::memset(memory, 1, bytes);
  EXPECT_LE(untouched_bytes(), allocated - bytes / 2);
  munmap(memory, bytes);
}

}  // namespace
}  // namespace artesian
