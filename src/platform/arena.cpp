#include "platform/arena.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/units.h"

namespace artesian {
namespace {
constexpr std::uint64_t page = 4096;
}  // namespace

Result<Arena> Arena::reserve(std::uint64_t bytes) {
  Arena arena;
  arena.size_ = align_up(bytes == 0 ? 1 : bytes, page);
  void* memory = mmap(nullptr, arena.size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(Code::rejected, "cannot reserve {} of addresses: {}", format_size(bytes), std::strerror(errno));
  }
  arena.data_ = static_cast<std::byte*>(memory);
  return arena;
}

Arena::Arena(Arena&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Arena::~Arena() {
  if (data_ != nullptr) munmap(data_, size_);
}

void Arena::advise_huge(std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t first = align_up(offset, page);
  const std::uint64_t last = align_down(offset + bytes, page);
  if (last > first) madvise(data_ + first, last - first, MADV_HUGEPAGE);
}

void Arena::release(std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t first = align_up(offset, page);
  const std::uint64_t last = align_down(offset + bytes, page);
  if (last > first) madvise(data_ + first, last - first, MADV_DONTNEED);
}

}  // namespace artesian
