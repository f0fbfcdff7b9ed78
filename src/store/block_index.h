// Which blocks the KV store has, and where: by key hash to location and policy state, with the children of each block
// and the blocks of each segment. All of it is in memory, at most 48 bytes a block in a large index (node, table and
// growth included); the keys themselves are on flash. What it costs in time is the same at every size: it grows a few
// buckets with each insert, and no call but those that fill a vector takes longer than a few microseconds.
//
// A block may name a parent that is not there, or that goes before it: such a parent is kept as a "ghost" as long as it
// has children. Ghosts count as blocks of `blocks_max` and `bytes`, and are never found.
//
// Threads: one owner; callers serialise. Deterministic: the same calls give the same answers and the same memory.
// Key hashes must be spread evenly (a hash with the store's secret is); keys chosen to collide then cannot be made.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/key_hash.h"
#include "base/result.h"
#include "store/block_pool.h"
#include "store/block_table.h"

namespace artesian {

struct BlockLocation {
  std::uint32_t segment = 0;      // numbered over all paths
  std::uint32_t page = 0;         // of 4 KiB, in the segment; below 2^22
  std::uint16_t pages = 0;        // header and payload; below 2^15
  std::uint8_t header_pages = 0;  // below 16
  std::uint8_t lifetime = 0;      // lifetime class; below 16
  bool coded = false;             // by a codec: the payload is not the block as it is

  bool operator==(const BlockLocation&) const = default;
};

struct BlockEntry {
  BlockLocation location;
  std::uint64_t policy = 0;  // belongs to the eviction policy

  bool operator==(const BlockEntry&) const = default;
};

struct IndexedBlock {
  KeyHash key;
  BlockEntry entry;

  bool operator==(const IndexedBlock&) const = default;
};

class BlockIndex {
 public:
  // Reserves addresses for the largest size; memory is taken as blocks come. Code::invalid unless both are at least 1
  // and `blocks_max` is at most blocks_limit(segments_max).
  static Result<BlockIndex> create(std::uint64_t blocks_max, std::uint32_t segments_max);

  // The most blocks that an index of so many segments can be made for; some 89 million for few segments, 0 for too
  // many.
  static std::uint64_t blocks_limit(std::uint32_t segments_max) { return BlockPool::blocks_limit(segments_max); }

  std::optional<BlockEntry> find(const KeyHash& key) const;

  // `parent` none: a root. Code::invalid if the key is there already, is none, or the location is out of its bounds;
  // rejected if the index is full. Nothing has changed then.
  Status insert(const KeyHash& key, const KeyHash& parent, const BlockEntry& entry);

  // The block was carried forward. Its parent, children and policy state stay. Code::not_found if it is not at `from`
  // (any more), invalid for a location out of its bounds, rejected if the index is full; it stays where it is then.
  Status move(const KeyHash& key, const BlockLocation& from, const BlockLocation& to);

  bool erase(const KeyHash& key);
  bool erase_at(const KeyHash& key, const BlockLocation& only_at);  // false if it is not there
  bool set_policy(const KeyHash& key, std::uint64_t policy);        // false if the key is not there

  // Blocks that name `parent` as theirs, the newest first; also where the parent itself is gone. Appends.
  void children(const KeyHash& parent, std::vector<KeyHash>& out) const;
  bool has_children(const KeyHash& key) const;

  // What a block was inserted below. Roots, and blocks with more than 64 newer siblings, which are not looked through:
  // none, and stored (so many hang on what everybody has).
  struct Parent {
    KeyHash key;
    bool stored = true;
  };
  Parent parent(const KeyHash& key) const;

  // The next blocks of a segment, at most `count`, appended to `out`; none at the end. Blocks that it gave may be
  // erased and moved away between calls; if others of the segment are, some may be given again, and none is left out.
  using SegmentCursor = BlockPool::Cursor;
  void blocks_of(std::uint32_t segment, SegmentCursor& cursor, std::size_t count, std::vector<IndexedBlock>& out) const;

  std::uint64_t size() const { return blocks_; }
  std::uint64_t ghosts() const { return ghosts_; }
  std::uint64_t bytes() const { return pool_.bytes() + table_.bytes(); }  // of memory, what was touched

 private:
  BlockIndex(BlockPool pool, BlockTable table, std::uint64_t blocks_max)
      : pool_(std::move(pool)), table_(std::move(table)), blocks_max_(blocks_max) {}

  BlockId find_block(const KeyHash& key) const;  // 0 if it is not there, or a ghost
  BlockLocation location_of(BlockId id) const;
  void set_location(BlockId id, const BlockLocation& location);
  Status check(const BlockLocation& location) const;
  Status full() const;
  BlockId make_ghost(const KeyHash& key);
  void drop_if_idle_ghost(BlockId id);
  void renumber(BlockId from, BlockId to);
  void attach(BlockId id, BlockId parent);
  void detach(BlockId id);
  void erase(BlockId id);

  BlockPool pool_;
  BlockTable table_;
  std::uint64_t blocks_max_;
  std::uint64_t blocks_ = 0;
  std::uint64_t ghosts_ = 0;
};

}  // namespace artesian
