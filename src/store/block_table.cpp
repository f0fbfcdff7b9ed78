#include "store/block_table.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <iterator>
#include <utility>

namespace artesian {
namespace {

constexpr std::uint64_t buckets_min = 16;
constexpr std::uint64_t spare = 64;    // buckets behind the last one, for entries that it and its like have no room for
constexpr std::uint64_t fill_max = 9;  // tenths of all places, then the table grows
constexpr std::uint64_t growth = 8;    // by an eighth
constexpr std::uint64_t buckets_a_step = 2;  // moved with each insert: the table has grown before it is 95 % full
constexpr std::uint64_t buckets_ahead = 2;   // whose nodes are fetched into the cache before they are needed

std::uint64_t scale(std::uint64_t hash, std::uint64_t buckets) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(hash) * buckets) >> 64);
}

std::uint8_t tag_of(const KeyHash& key) {
  return static_cast<std::uint8_t>(key.low);
}

}  // namespace

Result<BlockTable> BlockTable::create(std::uint64_t entries_max) {
  BlockTable table;
  table.buckets_max_ = std::max(buckets_min, entries_max * 10 / (fill_max * places) + 1);
  auto memory = Arena::reserve((table.buckets_max_ + spare) * sizeof(Bucket), Arena::Pages::large);
  if (!memory) return fail(memory.error());
  table.memory_ = std::move(*memory);
  table.buckets_ = table.moved_from_ = table.target_ = buckets_min;
  return table;
}

std::uint64_t BlockTable::home(const KeyHash& key) const {
  const std::uint64_t before = scale(key.high, buckets_);
  return before < moved_from_ ? before : scale(key.high, target_);
}

BlockId BlockTable::find(const KeyHash& key, const BlockPool& pool) const {
  const std::uint8_t tag = tag_of(key);
  for (std::uint64_t at = home(key);; ++at) {
    const Bucket& here = bucket(at);
    unsigned alike = 0;
    for (unsigned i = 0; i < places; ++i) alike |= static_cast<unsigned>(here.tag[i] == tag) << i;
    for (; alike != 0; alike &= alike - 1) {
      const BlockId id = here.id[std::countr_zero(alike)];
      if (id != 0 && pool.node(id).key == key) return id;
    }
    if (here.passed == 0) return 0;
  }
}

BlockTable::Place BlockTable::place_of(const KeyHash& key, BlockId id) const {
  for (std::uint64_t at = home(key);; ++at) {
    const auto* const found = std::ranges::find(bucket(at).id, id);
    if (found != std::end(bucket(at).id)) return {at, static_cast<unsigned>(found - bucket(at).id)};
  }
}

bool BlockTable::put(const KeyHash& key, BlockId id) {
  const std::uint64_t first = home(key);
  for (std::uint64_t at = first; at < target_ + spare; ++at) {
    Bucket& here = bucket(at);
    auto* const free = std::ranges::find(here.id, BlockId{0});
    if (free == std::end(here.id)) continue;
    *free = id;
    here.tag[free - here.id] = tag_of(key);
    for (std::uint64_t passed = first; passed < at; ++passed) ++bucket(passed).passed;
    return true;
  }
  return false;
}

void BlockTable::remove(std::uint64_t home, Place place) {
  bucket(place.bucket).id[place.index] = 0;
  for (std::uint64_t passed = home; passed < place.bucket; ++passed) --bucket(passed).passed;
}

bool BlockTable::insert(const KeyHash& key, BlockId id, const BlockPool& pool) {
  if (!put(key, id)) return false;
  ++entries_;
  if (moved_from_ == buckets_ && target_ == buckets_ && entries_ * 10 > buckets_ * places * fill_max) {
    target_ = std::min(buckets_max_, buckets_ + buckets_ / growth);
  }
  if (target_ != buckets_) grow(pool);
  return true;
}

void BlockTable::erase(const KeyHash& key, BlockId id) {
  remove(home(key), place_of(key, id));
  --entries_;
}

void BlockTable::replace(const KeyHash& key, BlockId from, BlockId to) {
  const Place place = place_of(key, from);
  bucket(place.bucket).id[place.index] = to;
}

void BlockTable::grow(const BlockPool& pool) {
  for (std::uint64_t step = 0; step < buckets_a_step && moved_from_ > 0; ++step) {
    if (moved_from_ > buckets_ahead) {
      for (const BlockId id : bucket(moved_from_ - 1 - buckets_ahead).id) __builtin_prefetch(&pool.node(id));
    }
    move_bucket(moved_from_ - 1, pool);
  }
  if (moved_from_ == 0) buckets_ = moved_from_ = target_;
}

// Moves every entry whose bucket was `from`, there or behind it, to its new one.
void BlockTable::move_bucket(std::uint64_t from, const BlockPool& pool) {
  moving_.clear();
  for (std::uint64_t at = from;; ++at) {
    Bucket& here = bucket(at);
    for (unsigned i = 0; i < places; ++i) {
      if (here.id[i] == 0) continue;
      const KeyHash& key = pool.node(here.id[i]).key;
      if (scale(key.high, buckets_) != from) continue;
      moving_.push_back({key, here.id[i]});
      remove(from, {at, i});
    }
    if (here.passed == 0) break;
  }
  moved_from_ = from;
  for (const Entry& entry : moving_) {
    [[maybe_unused]] const bool there_was_room = put(entry.key, entry.id);
    assert(there_was_room);  // behind it the table has an eighth more room than before, and the spare buckets
  }
}

std::uint64_t BlockTable::bytes() const {
  return (target_ + spare) * sizeof(Bucket);
}

}  // namespace artesian
