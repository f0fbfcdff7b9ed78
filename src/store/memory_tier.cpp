#include "store/memory_tier.h"

#include <algorithm>

namespace artesian {
namespace {
constexpr std::uint64_t bookkeeping_bytes = 256;  // of list, table and allocator, a block
}  // namespace

std::uint64_t MemoryBlock::footprint() const {
  return bytes + key.size() + sizeof(MemoryBlock) + bookkeeping_bytes;
}

std::shared_ptr<const MemoryBlock> copy_block(const KeyHash& hash, const NamespaceDigest& ns, std::uint64_t epoch,
                                              std::span<const std::byte> key, Pieces<const std::byte> data,
                                              std::uint64_t bytes) {
  auto memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
  copy_out(data, 0, std::span(memory.get(), bytes));
  return own_block(hash, ns, epoch, key, std::move(memory), bytes);
}

std::shared_ptr<const MemoryBlock> own_block(const KeyHash& hash, const NamespaceDigest& ns, std::uint64_t epoch,
                                             std::span<const std::byte> key, std::unique_ptr<std::byte[]> data,
                                             std::uint64_t bytes) {
  return std::make_shared<MemoryBlock>(MemoryBlock{.hash = hash,
                                                   .ns = ns,
                                                   .epoch = epoch,
                                                   .key = {key.begin(), key.end()},
                                                   .data = std::move(data),
                                                   .bytes = bytes});
}

std::shared_ptr<const MemoryBlock> MemoryTier::find(const KeyHash& hash, const NamespaceDigest& ns, std::uint64_t epoch,
                                                    std::span<const std::byte> key) {
  const auto found = blocks_.find(hash);
  if (found == blocks_.end()) return nullptr;
  const MemoryBlock& block = **found->second;
  if (block.ns != ns || block.epoch != epoch || !std::ranges::equal(block.key, key)) return nullptr;
  order_.splice(order_.begin(), order_, found->second);
  return order_.front();
}

void MemoryTier::insert(std::shared_ptr<const MemoryBlock> block) {
  const std::uint64_t bytes = block->footprint();
  if (!takes(bytes)) return;
  erase(block->hash);
  while (bytes_ + bytes > bytes_max_) {
    const KeyHash last = order_.back()->hash;
    erase(last);
  }
  bytes_ += bytes;
  const KeyHash hash = block->hash;
  order_.push_front(std::move(block));
  blocks_[hash] = order_.begin();
}

void MemoryTier::erase(const KeyHash& hash) {
  const auto found = blocks_.find(hash);
  if (found == blocks_.end()) return;
  bytes_ -= (*found->second)->footprint();
  order_.erase(found->second);
  blocks_.erase(found);
}

}  // namespace artesian
