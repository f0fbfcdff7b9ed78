// Looking at every record of the store: for lists and for verification. Blocks that come and go meanwhile may or may
// not be seen.
#include <algorithm>
#include <cassert>

#include "store/engine.h"

namespace artesian {
namespace {
constexpr std::size_t scans_at_once = 16;
}  // namespace

// The header of the block's record, if that is what lies there. not_found if it was erased with its namespace. Without
// the lock.
Result<RecordHeader> Engine::record_at(std::span<const std::byte> bytes, const IndexedBlock& block,
                                       std::uint64_t sequence) const {
  const BlockLocation& location = block.entry.location;
  auto record = parse_record(bytes, store_, sealer_.get());
  if (!record) return record;
  const bool same = record->page == location.page && record->sequence == sequence && !record->key.empty() &&
                    record->pages() == location.pages &&
                    hash_key(secret_, record->ns, record->epoch, record->key) == block.key;
  if (!same) return fail(Code::corrupt, "the record there is another");
  return record;
}

struct Engine::ScanOp final : Engine::Op {
  bool prepare(Engine& engine) override {
    const BlockLocation& location = block.entry.location;
    buffer = engine.buffers_.take((whole ? location.pages : location.header_pages) * store_page);
    if (!buffer) return false;
    request.buffer = buffer.span();
    aim(engine, location.segment, location.page);
    return true;
  }
  void check(Engine& engine) override {
    if (!status) return;
    const auto record = engine.record_at(buffer.span(), block, sequence);
    gone = !record && record.error().code == Code::not_found;
    if (!record) return;
    good = !whole || whole_payload_is_good(*record, buffer.span());
    header = *record;
  }
  bool finish(Engine& engine) override {
    if (!good && !gone && !retried) {
      retried = true;
      return false;
    }
    if (gone) engine.forget(block.key, block.entry.location);
    --engine.segments_[block.entry.location.segment].readers;
    seen(*this);
    buffer.give_back();
    return true;
  }
  void give_up(Engine& engine, Outcome) override {
    --engine.segments_[block.entry.location.segment].readers;
    seen(*this);
  }

  IndexedBlock block;
  bool whole = false, good = false, retried = false;
  bool gone = false;  // with its namespace
  std::uint64_t sequence = 0;
  RecordHeader header;
  std::function<void(ScanOp&)> seen;  // under the lock
};

// Every block that is in the index now, header or all of it; `seen` under the lock. False of `go_on` ends it.
void Engine::scan(bool whole, const std::function<void(ScanOp&)>& seen, const std::function<bool(Lock&)>& go_on) {
  constexpr std::size_t at_once = 256;
  Lock lock(mutex_);
  for (std::uint32_t segment = 0; segment < segments_.count(); ++segment) {
    std::vector<IndexedBlock> blocks, some;
    BlockIndex::SegmentCursor cursor{};
    do {
      some.clear();
      index_.blocks_of(segment, cursor, at_once, some);
      blocks.insert(blocks.end(), some.begin(), some.end());
    } while (!some.empty());
    std::size_t under_way = 0;
    for (const IndexedBlock& block : blocks) {
      drive_until(lock, [&] { return under_way < scans_at_once; });
      if (!go_on(lock)) break;
      const auto now = index_.find(block.key);
      if (!now || now->location != block.entry.location) continue;
      auto op = std::make_unique<ScanOp>();
      op->block = block;
      op->whole = whole;
      op->sequence = segments_[segment].sequence;
      op->seen = [&](ScanOp& ended) {
        --under_way;
        seen(ended);
      };
      ++segments_[segment].readers;
      ++under_way;
      queue(IoClass::staged, std::move(op));
      start_queued();
    }
    drive_until(lock, [&] { return under_way == 0; });
    if (!go_on(lock)) return;
  }
}

Status Engine::list(NamespaceId id, const std::function<bool(const BlockFacts&)>& each) {
  NamespaceSlot ns;
  {
    const Lock lock(mutex_);
    assert(id < namespaces_.size() && namespaces_[id].used);
    ns = namespaces_[id].slot;
  }
  std::deque<BlockFacts> found;
  std::uint64_t unread = 0;
  bool more = true;
  const auto seen = [&](ScanOp& op) {
    if (!op.good && !op.gone) ++unread;
    const RecordHeader& header = op.header;
    if (!op.good || header.ns != ns.digest || header.epoch != ns.epoch) return;
    BlockFacts facts{.key = {header.key.begin(), header.key.end()},
                     .parent = {header.parent.begin(), header.parent.end()},
                     .attributes = {header.attributes.begin(), header.attributes.end()}};
    facts.hints = {.session = header.session,
                   .position = header.position,
                   .tokens = header.tokens,
                   .deadline_ms = header.deadline_ms,
                   .next_use_ms = header.next_use_ms,
                   .lifetime = header.lifetime};
    facts.bytes = header.raw_bytes;
    facts.flash_bytes = header.pages() * store_page;
    facts.generation = header.generation;
    for (std::uint32_t i = 0; i < header.extent_count(); ++i) facts.extents.push_back(header.extent(i).raw_bytes);
    found.push_back(std::move(facts));
  };
  scan(false, seen, [&](Lock& lock) {
    auto now = std::exchange(found, {});
    lock.unlock();
    for (const BlockFacts& facts : now) more = more && each(facts);
    lock.lock();
    return more;
  });
  if (unread > 0) return fail(Code::corrupt, "{} blocks cannot be read; verify tells more", unread);
  return {};
}

Result<VerifyReport> Engine::verify(const std::function<void(const VerifyReport&)>& progress) {
  return check_all(progress, false);
}

// Blocks of erased namespaces are in the index until their segments give way; here they go before.
void Engine::forget_erased() {
  const auto seen = [&](ScanOp& op) {
    if (op.good && !is_current(op.header)) forget(op.block.key, op.block.entry.location);
  };
  scan(false, seen, [](Lock&) { return true; });
}

Result<VerifyReport> Engine::check_all(const std::function<void(const VerifyReport&)>& progress, bool for_good) {
  VerifyReport report;
  std::uint64_t told = 0;
  const auto seen = [&](ScanOp& op) {
    if (op.gone) return;
    ++report.blocks;
    report.bytes += op.block.entry.location.pages * store_page;
    if (op.good) return;
    ++report.bad;
    ++stats_.corrupt;
    forget(op.block.key, op.block.entry.location);
    if (for_good) note_erasure({op.block.key, ++generation_, op.sequence});
  };
  scan(true, seen, [&](Lock& lock) {
    if (progress && report.blocks != told) {
      told = report.blocks;
      const VerifyReport now = report;
      lock.unlock();
      progress(now);
      lock.lock();
    }
    return true;
  });
  return report;
}

}  // namespace artesian
