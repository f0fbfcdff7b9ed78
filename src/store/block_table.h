// From a key hash to its node: buckets of one cache line, each with 12 places of a tag (8 bits of the hash) and a
// node's id. A bucket's number is the hash's upper half scaled to the number of buckets, so buckets stand in the order
// of the hashes, and growing by an eighth shifts every entry to a bucket at or behind its own: the table grows in
// place, a few buckets with each insert, from the last one down. An entry whose bucket is full goes to the next with
// room; each bucket passed on the way counts it, so a search knows where to stop and nothing is left behind by an
// erase.
//
// Hashes must be spread evenly over all values (a keyed hash). If they are not, searches get long but stay right.
// Threads: one owner. Memory: 5.9 to 6.7 bytes an entry when large; addresses for the largest size are reserved.
#pragma once

#include <cstdint>
#include <vector>

#include "base/key_hash.h"
#include "base/result.h"
#include "platform/arena.h"
#include "store/block_pool.h"

namespace artesian {

class BlockTable {
 public:
  static Result<BlockTable> create(std::uint64_t entries_max);

  BlockId find(const KeyHash& key, const BlockPool& pool) const;  // 0: not there
  // The key is not in the table yet. False where the end of the table is full, which evenly spread hashes never do.
  bool insert(const KeyHash& key, BlockId id, const BlockPool& pool);
  void erase(const KeyHash& key, BlockId id);                  // it is there
  void replace(const KeyHash& key, BlockId from, BlockId to);  // `from` is there

  std::uint64_t bytes() const;  // of memory touched

 private:
  static constexpr std::uint64_t places = 12;
  struct Bucket {
    std::uint8_t tag[places];
    BlockId id[places];    // 0: free
    std::uint32_t passed;  // entries that would stand here or before, and stand behind
  };
  static_assert(sizeof(Bucket) == 64);
  struct Place {
    std::uint64_t bucket;
    unsigned index;
  };
  struct Entry {
    KeyHash key;
    BlockId id;
  };

  Bucket& bucket(std::uint64_t index) { return reinterpret_cast<Bucket*>(memory_.data())[index]; }
  const Bucket& bucket(std::uint64_t index) const { return reinterpret_cast<const Bucket*>(memory_.data())[index]; }
  std::uint64_t home(const KeyHash& key) const;
  Place place_of(const KeyHash& key, BlockId id) const;
  bool put(const KeyHash& key, BlockId id);
  void remove(std::uint64_t home, Place place);
  void grow(const BlockPool& pool);
  void move_bucket(std::uint64_t from, const BlockPool& pool);

  Arena memory_;
  std::uint64_t buckets_max_ = 0;
  std::uint64_t entries_ = 0;
  // Hashes whose bucket among `buckets_` is below `moved_from_` are still there, the others have moved to their bucket
  // among `target_`. Equal, all three, while the table does not grow.
  std::uint64_t buckets_ = 0;
  std::uint64_t moved_from_ = 0;
  std::uint64_t target_ = 0;
  std::vector<Entry> moving_;  // kept for its memory
};

}  // namespace artesian
