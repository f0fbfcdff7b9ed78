#include "store/block_index.h"

#include <utility>

namespace artesian {
namespace {

constexpr BlockId id_mask = (1U << block_id_bits) - 1;  // no id has more bits; says so to the compiler
constexpr std::uint32_t page_max = (1U << 22) - 1;
constexpr std::uint16_t pages_max = (1U << 15) - 1;
constexpr std::uint8_t small_max = 15;  // header pages, lifetime class

}  // namespace

Result<BlockIndex> BlockIndex::create(std::uint64_t blocks_max, std::uint32_t segments_max) {
  auto pool = BlockPool::create(blocks_max, segments_max);
  if (!pool) return fail(pool.error());
  auto table = BlockTable::create(blocks_max);
  if (!table) return fail(table.error());
  return BlockIndex(std::move(*pool), std::move(*table), blocks_max);
}

BlockId BlockIndex::find_block(const KeyHash& key) const {
  const BlockId id = table_.find(key, pool_);
  return id == 0 || pool_.is_ghost(id) ? 0 : id;
}

BlockLocation BlockIndex::location_of(BlockId id) const {
  const BlockNode& node = pool_.node(id);
  return {.segment = pool_.segment_of(id),
          .page = static_cast<std::uint32_t>(node.page),
          .pages = static_cast<std::uint16_t>(node.pages),
          .header_pages = static_cast<std::uint8_t>(node.header_pages),
          .lifetime = static_cast<std::uint8_t>(node.lifetime),
          .coded = node.coded != 0};
}

void BlockIndex::set_location(BlockId id, const BlockLocation& location) {
  BlockNode& node = pool_.node(id);
  node.page = location.page & page_max;
  node.pages = location.pages & pages_max;
  node.header_pages = location.header_pages & small_max;
  node.lifetime = location.lifetime & small_max;
  node.coded = location.coded ? 1 : 0;
}

Status BlockIndex::check(const BlockLocation& location) const {
  if (location.segment < pool_.segments_max() && location.page <= page_max && location.pages <= pages_max &&
      location.header_pages <= small_max && location.lifetime <= small_max) {
    return {};
  }
  return fail(
      Code::invalid,
      "block index: segment {}, page {}, {} pages, {} of them header, lifetime class {}: takes segments below {}, "
      "pages to {}, {} pages, {} of header, classes to {}",
      location.segment, location.page, location.pages, location.header_pages, location.lifetime, pool_.segments_max(),
      page_max, pages_max, small_max, small_max);
}

Status BlockIndex::full() const {
  return fail(Code::rejected, "block index: full, {} blocks and {} parents that are gone, of {} in all", blocks_,
              ghosts_, blocks_max_);
}

std::optional<BlockEntry> BlockIndex::find(const KeyHash& key) const {
  const BlockId id = find_block(key);
  if (id == 0) return std::nullopt;
  return BlockEntry{location_of(id), pool_.node(id).policy};
}

BlockIndex::Parent BlockIndex::parent(const KeyHash& key) const {
  constexpr unsigned siblings_max = 64;
  BlockId id = find_block(key);
  for (unsigned step = 0; id != 0 && step <= siblings_max; ++step) {
    const BlockNode& node = pool_.node(id);
    id = static_cast<BlockId>(node.previous);
    if (node.previous_is_parent) return {pool_.node(id).key, !pool_.is_ghost(id)};
  }
  return {};
}

// A node for a parent that is not there; 0 if the table has no room for it, as only uneven hashes can make it.
BlockId BlockIndex::make_ghost(const KeyHash& key) {
  const BlockId ghost = pool_.take_ghost();
  if (ghost == 0) return 0;
  pool_.node(ghost) = BlockNode{.key = key};
  if (!table_.insert(key, ghost, pool_)) {
    pool_.give_back(ghost);
    return 0;
  }
  ++ghosts_;
  return ghost;
}

void BlockIndex::drop_if_idle_ghost(BlockId id) {
  if (id == 0 || !pool_.is_ghost(id) || pool_.node(id).first_child != 0) return;
  table_.erase(pool_.node(id).key, id);
  pool_.give_back(id);
  --ghosts_;
}

// The block of `from` is `to` from now on, with all that points to it; `from` has gone.
void BlockIndex::renumber(BlockId from, BlockId to) {
  BlockNode& node = pool_.node(to);
  node = pool_.node(from);
  table_.replace(node.key, from, to);
  if (node.previous_is_parent) {
    pool_.node(static_cast<BlockId>(node.previous)).first_child = to & id_mask;
  } else if (node.previous != 0) {
    pool_.node(static_cast<BlockId>(node.previous)).next = to & id_mask;
  }
  if (node.next != 0) pool_.node(static_cast<BlockId>(node.next)).previous = to & id_mask;
  if (node.first_child != 0) pool_.node(static_cast<BlockId>(node.first_child)).previous = to & id_mask;
  pool_.give_back(from);
}

void BlockIndex::attach(BlockId id, BlockId parent) {
  if (parent == 0) return;
  BlockNode& node = pool_.node(id);
  BlockNode& above = pool_.node(parent);
  node.previous = parent & id_mask;
  node.previous_is_parent = 1;
  node.next = above.first_child;
  if (node.next != 0) {
    BlockNode& second = pool_.node(static_cast<BlockId>(node.next));
    second.previous = id & id_mask;
    second.previous_is_parent = 0;
  }
  above.first_child = id & id_mask;
}

void BlockIndex::detach(BlockId id) {
  BlockNode& node = pool_.node(id);
  const auto previous = static_cast<BlockId>(node.previous);
  const bool first = node.previous_is_parent != 0;
  if (node.next != 0) {
    BlockNode& behind = pool_.node(static_cast<BlockId>(node.next));
    behind.previous = previous & id_mask;
    behind.previous_is_parent = first;
  }
  if (previous != 0) (first ? pool_.node(previous).first_child : pool_.node(previous).next) = node.next;
  node.previous = node.next = node.previous_is_parent = 0;
  if (first) drop_if_idle_ghost(previous);
}

Status BlockIndex::insert(const KeyHash& key, const KeyHash& parent, const BlockEntry& entry) {
  if (const Status status = check(entry.location); !status) return status;
  if (key.none()) return fail(Code::invalid, "block index: a block without a key");
  const BlockId before = table_.find(key, pool_);
  if (before != 0 && !pool_.is_ghost(before)) {
    return fail(Code::invalid, "block index: block {:016x}{:016x} is there already", key.high, key.low);
  }
  const bool has_parent = !parent.none() && parent != key;  // one that names itself is a root
  const BlockId above = has_parent ? table_.find(parent, pool_) : 0;
  if (blocks_ + ghosts_ + (before == 0) + (has_parent && above == 0) > blocks_max_) return full();

  const BlockId id = pool_.take(entry.location.segment);
  if (id == 0) return full();
  if (before != 0) {
    renumber(before, id);
    --ghosts_;
  } else {
    pool_.node(id) = BlockNode{.key = key};
    if (!table_.insert(key, id, pool_)) {
      pool_.give_back(id);
      return full();
    }
  }
  ++blocks_;
  set_location(id, entry.location);
  pool_.node(id).policy = entry.policy;
  if (has_parent) attach(id, above != 0 ? above : make_ghost(parent));
  return {};
}

Status BlockIndex::move(const KeyHash& key, const BlockLocation& from, const BlockLocation& to) {
  if (const Status status = check(to); !status) return status;
  const BlockId id = find_block(key);
  if (id == 0 || location_of(id) != from) {
    return fail(Code::not_found, "block index: block {:016x}{:016x} is not in segment {} at page {}", key.high, key.low,
                from.segment, from.page);
  }
  BlockId there = id;
  if (from.segment != to.segment) {
    there = pool_.take(to.segment);
    if (there == 0) return full();
    renumber(id, there);
  }
  set_location(there, to);
  return {};
}

void BlockIndex::erase(BlockId id) {
  detach(id);
  --blocks_;
  if (pool_.node(id).first_child != 0) {
    renumber(id, pool_.take_ghost());  // there is room for one ghost for each block
    ++ghosts_;
    return;
  }
  table_.erase(pool_.node(id).key, id);
  pool_.give_back(id);
}

bool BlockIndex::erase(const KeyHash& key) {
  const BlockId id = find_block(key);
  if (id != 0) erase(id);
  return id != 0;
}

bool BlockIndex::erase_at(const KeyHash& key, const BlockLocation& only_at) {
  const BlockId id = find_block(key);
  if (id == 0 || location_of(id) != only_at) return false;
  erase(id);
  return true;
}

bool BlockIndex::set_policy(const KeyHash& key, std::uint64_t policy) {
  const BlockId id = find_block(key);
  if (id != 0) pool_.node(id).policy = policy;
  return id != 0;
}

void BlockIndex::children(const KeyHash& parent, std::vector<KeyHash>& out) const {
  const BlockId id = table_.find(parent, pool_);
  if (id == 0) return;
  for (auto child = static_cast<BlockId>(pool_.node(id).first_child); child != 0;
       child = static_cast<BlockId>(pool_.node(child).next)) {
    out.push_back(pool_.node(child).key);
  }
}

bool BlockIndex::has_children(const KeyHash& key) const {
  const BlockId id = table_.find(key, pool_);
  return id != 0 && pool_.node(id).first_child != 0;
}

void BlockIndex::blocks_of(std::uint32_t segment, SegmentCursor& cursor, std::size_t count,
                           std::vector<IndexedBlock>& out) const {
  if (segment >= pool_.segments_max()) return;
  for (std::size_t given = 0; given < count; ++given) {
    const BlockId id = pool_.next_of(segment, cursor);
    if (id == 0) return;
    out.push_back({pool_.node(id).key, {location_of(id), pool_.node(id).policy}});
  }
}

}  // namespace artesian
