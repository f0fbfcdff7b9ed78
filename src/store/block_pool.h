// Where the entries of the block index lie: nodes of 40 bytes in chunks of 64, each chunk belonging to one segment, so
// that a node need not say which segment its block is in, a segment's blocks are enumerable, and all that a reclaimed
// segment used comes back at once. Blocks that are gone but still have children ("ghosts") lie in a segment of their
// own.
//
// Threads: one owner. A BlockId is good until the node moves or is given back. Memory: addresses for all chunks are
// reserved at once, pages are touched as chunks are first used and then kept.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>

#include "base/key_hash.h"
#include "base/result.h"
#include "platform/arena.h"

namespace artesian {

using BlockId = std::uint32_t;  // chunk and place in it; 0: none
constexpr unsigned block_id_bits = 27;

struct BlockNode {
  KeyHash key;
  std::uint64_t policy;  // belongs to the eviction policy
  // Children of a block are a list: the parent knows the first, each its neighbours, and the first has the parent as
  // its `previous`. So a child leaves the list, and a block moves, without a walk.
  std::uint64_t first_child : block_id_bits;
  std::uint64_t next : block_id_bits;
  std::uint64_t header_pages : 4;
  std::uint64_t lifetime : 4;
  std::uint64_t coded : 1;
  std::uint64_t previous_is_parent : 1;
  std::uint64_t previous : block_id_bits;
  std::uint64_t page : 22;  // of 4 KiB, in a segment of at most 16 GiB
  std::uint64_t pages : 15;
};
static_assert(sizeof(BlockNode) == 40);

class BlockPool {
 public:
  // Nodes for `blocks_max` blocks in segments 0 … segments_max − 1, and for the ghosts that they may leave.
  static Result<BlockPool> create(std::uint64_t blocks_max, std::uint32_t segments_max);

  static std::uint64_t blocks_limit(std::uint32_t segments_max);

  BlockNode& node(BlockId id) { return chunk(id / chunk_nodes).nodes[id % chunk_nodes]; }
  const BlockNode& node(BlockId id) const { return chunk(id / chunk_nodes).nodes[id % chunk_nodes]; }
  std::uint32_t segment_of(BlockId id) const { return chunk(id / chunk_nodes).segment; }
  bool is_ghost(BlockId id) const { return segment_of(id) == ghosts_; }

  // A node, not initialised; 0 when there is no room. For a ghost there is always room: ghosts are never more than
  // blocks.
  BlockId take(std::uint32_t segment);
  BlockId take_ghost();
  void give_back(BlockId id);

  std::uint32_t segments_max() const { return ghosts_; }
  std::uint64_t bytes() const;  // of memory touched

  // Where a walk over a segment's nodes stands.
  struct Cursor {
    std::uint32_t chunk = 0;
    std::uint32_t place = 0;
    bool begun = false;
  };
  // The next node of the segment; 0 at the end. Nodes that were returned may be given back during the walk; if others
  // are, the walk may begin again.
  BlockId next_of(std::uint32_t segment, Cursor& cursor) const;

 private:
  static constexpr std::uint32_t chunk_nodes = 64;
  struct Chunk {
    std::uint64_t live;  // one bit a node
    std::uint32_t segment;
    std::uint32_t next, previous;  // of the segment; 0: none
    BlockNode nodes[chunk_nodes];
  };
  struct Segment {
    std::uint32_t first, last;  // chunks; 0: none
  };

  static std::uint64_t chunks_of(std::uint64_t blocks_max, std::uint32_t segments_max);
  static std::uint64_t chunks_with_ghosts(std::uint64_t blocks_max, std::uint32_t segments_max);
  Chunk& chunk(std::uint32_t index) { return reinterpret_cast<Chunk*>(memory_.data())[index]; }
  const Chunk& chunk(std::uint32_t index) const { return reinterpret_cast<const Chunk*>(memory_.data())[index]; }
  Segment& segment(std::uint32_t index) { return reinterpret_cast<Segment*>(segments_.data())[index]; }
  const Segment& segment(std::uint32_t index) const {
    return reinterpret_cast<const Segment*>(segments_.data())[index];
  }
  BlockId take(std::uint32_t segment, std::uint32_t chunks_max);
  std::uint32_t new_chunk(std::uint32_t chunks_max);
  void append(std::uint32_t index, std::uint32_t segment);
  void unlink(std::uint32_t index);

  Arena memory_;
  Arena segments_;
  std::uint32_t ghosts_ = 0;      // the number of the ghosts' segment, behind all others
  std::uint32_t chunks_max_ = 0;  // that blocks may take; ghosts may pass it
  std::uint32_t ghost_chunks_max_ = 0;
  std::uint32_t touched_ = 1;  // chunks ever used; chunk 0 is never used, so that 0 is "none"
  std::uint32_t used_ = 0;
  std::uint32_t free_ = 0;
};

}  // namespace artesian
