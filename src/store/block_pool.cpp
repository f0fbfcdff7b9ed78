#include "store/block_pool.h"

namespace artesian {

// Chunks of `blocks_max` blocks: each segment may have begun one that it does not fill, and a ghost has a child that is
// a block, so that ghosts are at most half of all. Chunk 0 is never used.
std::uint64_t BlockPool::chunks_of(std::uint64_t blocks_max, std::uint32_t segments_max) {
  return blocks_max / chunk_nodes + 1 + segments_max;
}
std::uint64_t BlockPool::chunks_with_ghosts(std::uint64_t blocks_max, std::uint32_t segments_max) {
  return chunks_of(blocks_max, segments_max) + blocks_max / chunk_nodes / 2 + 2;
}

std::uint64_t BlockPool::blocks_limit(std::uint32_t segments_max) {
  constexpr std::uint64_t chunks = (1ULL << block_id_bits) / chunk_nodes - 1;
  const std::uint64_t taken = chunks_with_ghosts(0, segments_max);
  return segments_max == 0 || taken >= chunks ? 0 : (chunks - taken) * 2 / 3 * chunk_nodes;
}

Result<BlockPool> BlockPool::create(std::uint64_t blocks_max, std::uint32_t segments_max) {
  if (blocks_max == 0 || blocks_max > blocks_limit(segments_max)) {
    return fail(Code::invalid,
                "block index: {} blocks in {} segments: takes at least 1 of each, and here at most {} blocks",
                blocks_max, segments_max, blocks_limit(segments_max));
  }
  const std::uint64_t with_ghosts = chunks_with_ghosts(blocks_max, segments_max);
  BlockPool pool;
  auto memory = Arena::reserve((with_ghosts + 1) * sizeof(Chunk), Arena::Pages::large);
  if (!memory) return fail(memory.error());
  auto segments = Arena::reserve((std::uint64_t{segments_max} + 1) * sizeof(Segment));
  if (!segments) return fail(segments.error());
  pool.memory_ = std::move(*memory);
  pool.segments_ = std::move(*segments);
  pool.ghosts_ = segments_max;
  pool.chunks_max_ = static_cast<std::uint32_t>(chunks_of(blocks_max, segments_max));
  pool.ghost_chunks_max_ = static_cast<std::uint32_t>(with_ghosts);
  return pool;
}

std::uint32_t BlockPool::new_chunk(std::uint32_t chunks_max) {
  if (used_ >= chunks_max) return 0;
  ++used_;
  if (free_ == 0) return touched_++;
  const std::uint32_t index = free_;
  free_ = chunk(index).next;
  return index;
}

void BlockPool::append(std::uint32_t index, std::uint32_t number) {
  Segment& owner = segment(number);
  Chunk& added = chunk(index);
  added.segment = number;
  added.next = 0;
  added.previous = owner.last;
  (owner.last == 0 ? owner.first : chunk(owner.last).next) = index;
  owner.last = index;
}

void BlockPool::unlink(std::uint32_t index) {
  const Chunk& gone = chunk(index);
  Segment& owner = segment(gone.segment);
  (gone.previous == 0 ? owner.first : chunk(gone.previous).next) = gone.next;
  (gone.next == 0 ? owner.last : chunk(gone.next).previous) = gone.previous;
}

BlockId BlockPool::take(std::uint32_t number, std::uint32_t chunks_max) {
  std::uint32_t index = segment(number).last;
  if (index == 0 || chunk(index).live == ~0ULL) {
    index = new_chunk(chunks_max);
    if (index == 0) return 0;
    chunk(index).live = 0;
    append(index, number);
  }
  Chunk& from = chunk(index);
  const auto place = static_cast<std::uint32_t>(std::countr_one(from.live));
  from.live |= 1ULL << place;
  return index * chunk_nodes + place;
}

BlockId BlockPool::take(std::uint32_t number) {
  return take(number, chunks_max_);
}

BlockId BlockPool::take_ghost() {
  const BlockId id = take(ghosts_, ghost_chunks_max_);
  // Ghosts come and go in any order. Full chunks stand in front, those with room behind, so that room is found at the
  // end.
  const std::uint32_t index = id / chunk_nodes;
  Segment& owner = segment(ghosts_);
  if (id != 0 && chunk(index).live == ~0ULL && owner.first != index) {
    unlink(index);
    chunk(index).previous = 0;
    chunk(index).next = owner.first;
    chunk(owner.first).previous = index;
    owner.first = index;
  }
  return id;
}

void BlockPool::give_back(BlockId id) {
  const std::uint32_t index = id / chunk_nodes;
  Chunk& owner = chunk(index);
  owner.live &= ~(1ULL << (id % chunk_nodes));
  if (owner.live == 0) {
    unlink(index);
    owner.segment = ghosts_ + 1;  // nobody's
    owner.next = free_;
    free_ = index;
    --used_;
  } else if (owner.segment == ghosts_ && segment(ghosts_).last != index) {
    unlink(index);
    append(index, ghosts_);
  }
}

std::uint64_t BlockPool::bytes() const {
  return touched_ * sizeof(Chunk) + (std::uint64_t{ghosts_} + 1) * sizeof(Segment);
}

BlockId BlockPool::next_of(std::uint32_t number, Cursor& cursor) const {
  if (!cursor.begun || (cursor.chunk != 0 && chunk(cursor.chunk).segment != number)) {
    cursor = {segment(number).first, 0, true};
  }
  while (cursor.chunk != 0) {
    const Chunk& at = chunk(cursor.chunk);
    const std::uint64_t rest = at.live >> cursor.place << cursor.place;
    if (rest == 0) {
      cursor.chunk = at.next;
      cursor.place = 0;
      continue;
    }
    const auto place = static_cast<std::uint32_t>(std::countr_zero(rest));
    const BlockId id = cursor.chunk * chunk_nodes + place;
    // What follows is looked up now: when this was the chunk's last node, the caller may give all of them back.
    const bool last = (rest & (rest - 1)) == 0;
    cursor.chunk = last ? at.next : cursor.chunk;
    cursor.place = last ? 0 : place + 1;
    return id;
  }
  return 0;
}

}  // namespace artesian
