#include "platform/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/units.h"

namespace artesian {
namespace {
constexpr std::uint64_t page = 4096;
constexpr std::uint64_t large_page = 2 * MiB;
}  // namespace

Result<Arena> Arena::reserve(std::uint64_t bytes, Pages pages) {
  Arena arena;
  arena.block_ = pages == Pages::large ? large_page : page;
  arena.size_ = align_up(bytes == 0 ? 1 : bytes, page);
  const std::uint64_t slack = arena.block_ - page;  // to begin at a whole block
  void* memory =
      mmap(nullptr, arena.size_ + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(Code::rejected, "cannot reserve {} of addresses: {}", format_size(bytes), std::strerror(errno));
  }
  auto* const first = static_cast<std::byte*>(memory);
  const auto address = reinterpret_cast<std::uintptr_t>(first);
  const std::uint64_t before = align_up(address, arena.block_) - address;
  arena.data_ = first + before;
  if (before > 0) munmap(first, before);
  if (slack > before) munmap(arena.data_ + arena.size_, slack - before);
  if (pages == Pages::large) madvise(arena.data_, arena.size_, MADV_HUGEPAGE);
  return arena;
}

Arena::Arena(Arena&& other) noexcept {
  *this = std::move(other);
}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(block_, other.block_);
  std::swap(blocks_, other.blocks_);
  std::swap(committed_, other.committed_);
  return *this;
}

Arena::~Arena() {
  if (data_ != nullptr) munmap(data_, size_);
}

std::uint64_t Arena::commit_cost(std::uint64_t offset, std::uint64_t bytes) const {
  std::uint64_t cost = 0;
  for (std::uint64_t block = offset / block_; block * block_ < offset + bytes; ++block) {
    if (block >= blocks_.size() || !blocks_[block]) cost += block_;
  }
  return cost;
}

void Arena::commit(std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0) return;
  const std::uint64_t last = (offset + bytes - 1) / block_;
  if (last >= blocks_.size()) blocks_.resize(last + 1);
  for (std::uint64_t block = offset / block_; block <= last; ++block) {
    if (!blocks_[block]) committed_ += block_;
    blocks_[block] = true;
  }
}

std::uint64_t Arena::release(std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t first = align_up(offset, block_);
  const std::uint64_t last = align_down(offset + bytes, block_);
  if (last <= first) return 0;
  madvise(data_ + first, last - first, MADV_DONTNEED);
  std::uint64_t freed = 0;
  for (std::uint64_t block = first / block_; block < std::min(last / block_, blocks_.size()); ++block) {
    if (blocks_[block]) freed += block_;
    blocks_[block] = false;
  }
  committed_ -= freed;
  return freed;
}

}  // namespace artesian
