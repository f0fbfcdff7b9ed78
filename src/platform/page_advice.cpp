#include "platform/page_advice.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "base/units.h"

namespace artesian {
namespace {

constexpr std::uint64_t page = 4096;

struct Pages {
  std::uint64_t begin, bytes;
};

Pages pages_of(std::span<const std::byte> memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::uint64_t begin = align_down(address, page);
  return {begin, align_up(address + memory.size(), page) - begin};
}

void advise(std::span<const std::byte> memory, int advice) {
  if (memory.empty()) return;
  const Pages pages = pages_of(memory);
  syscall(SYS_madvise, pages.begin, pages.bytes, advice);
}

}  // namespace

void advise_random(std::span<const std::byte> memory) {
  advise(memory, MADV_RANDOM);
}

void advise_soon(std::span<const std::byte> memory) {
  advise(memory, MADV_WILLNEED);
}

bool keep_resident(std::span<const std::byte> memory) {
  if (memory.empty()) return true;
  const Pages pages = pages_of(memory);
  return syscall(SYS_mlock2, pages.begin, pages.bytes, MLOCK_ONFAULT) == 0;
}

}  // namespace artesian
