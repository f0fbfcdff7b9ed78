// The blocks that are in host memory as well as, or instead of, on flash: bounded, the one that was used last the
// longest ago gives way. Blocks are copies, whole and verified when they came in.
//
// Threads: the owner's lock; a block that find() gave stays whole without it. Ownership: shared with whoever reads.
#pragma once

#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/gather.h"
#include "base/key_hash.h"
#include "format/store_format.h"

namespace artesian {

struct MemoryBlock {
  KeyHash hash;
  NamespaceDigest ns{};
  std::uint64_t epoch = 0;
  std::vector<std::byte> key;
  std::unique_ptr<std::byte[]> data;
  std::uint64_t bytes = 0;

  std::span<const std::byte> span() const { return {data.get(), bytes}; }
  std::uint64_t footprint() const;  // of memory, bookkeeping included
};

std::shared_ptr<const MemoryBlock> copy_block(const KeyHash& hash, const NamespaceDigest& ns, std::uint64_t epoch,
                                              std::span<const std::byte> key, Pieces<const std::byte> data,
                                              std::uint64_t bytes);

std::shared_ptr<const MemoryBlock> own_block(const KeyHash& hash, const NamespaceDigest& ns, std::uint64_t epoch,
                                             std::span<const std::byte> key, std::unique_ptr<std::byte[]> data,
                                             std::uint64_t bytes);

class MemoryTier {
 public:
  explicit MemoryTier(std::uint64_t bytes_max) : bytes_max_(bytes_max) {}

  bool takes(std::uint64_t bytes) const { return bytes <= bytes_max_ / 2; }
  bool contains(const KeyHash& hash) const { return blocks_.contains(hash); }
  // Under the full key, or null. The block is used last now.
  std::shared_ptr<const MemoryBlock> find(const KeyHash& hash, const NamespaceDigest& ns, std::uint64_t epoch,
                                          std::span<const std::byte> key);
  void insert(std::shared_ptr<const MemoryBlock> block);
  void erase(const KeyHash& hash);

  std::uint64_t bytes() const { return bytes_; }

 private:
  using Order = std::list<std::shared_ptr<const MemoryBlock>>;  // used last first

  std::uint64_t bytes_max_;
  std::uint64_t bytes_ = 0;
  Order order_;
  std::unordered_map<KeyHash, Order::iterator, KeyHashHash> blocks_;
};

}  // namespace artesian
