// Reading a block: where it lies by the index, straight into the caller's buffer where that is aligned, and verified
// there: the full key, the place and every checksum. What does not stand is zeroed and forgotten.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "store/engine.h"

namespace artesian {
namespace {

Pieces<std::byte> room_of(const Get& item) {
  return item.pieces.empty() ? Pieces<std::byte>(&item.buffer, 1) : item.pieces;
}

}  // namespace

struct Engine::GetOp final : Engine::Op {
  GetOp(Get& get, std::shared_ptr<Pending> pending) : item(get), batch(std::move(pending)) {}
  // For the memory tier alone.
  GetOp(Probe& probe, std::shared_ptr<Pending> pending)
      : item(own), batch(std::move(pending)), own{.key = probe.key}, staged(&probe) {}

  Pieces<std::byte> room() const { return room_of(item); }
  std::uint64_t header_bytes() const { return location.header_pages * store_page; }
  std::uint64_t payload_bytes() const { return (location.pages - location.header_pages) * store_page; }

  bool prepare(Engine& engine) override;
  bool plan_direct(std::uint64_t alignment);
  void check(Engine& engine) override;
  Outcome verify(Engine& engine);
  bool finish(Engine& engine) override;
  void give_up(Engine& engine, Outcome why) override;
  void wipe();
  void end(Engine& engine, Outcome what);

  Get& item;
  std::shared_ptr<Pending> batch;
  Get own;
  Probe* staged = nullptr;  // the block has no other room than `own_memory`
  std::unique_ptr<std::byte[]> own_memory;
  NamespaceDigest ns{};
  std::uint64_t epoch = 0, sequence = 0;
  KeyHash key;
  BlockLocation location;
  std::uint32_t number_in_path = 0;
  std::shared_ptr<const MemoryBlock> copy;  // for the memory tier
  std::uint64_t direct_bytes = 0;           // of the payload that the device puts into the caller's memory
  Outcome outcome = Outcome::none;
  bool retried = false;
};

// Puts the caller's memory between header and tail; false if it is not fit for that.
bool Engine::GetOp::plan_direct(std::uint64_t alignment) {
  direct_bytes = 0;
  pieces.assign(1, {});
  if (room().size() > pieces_limit - 2) return false;
  for (const auto& piece : room()) {
    const std::uint64_t left = payload_bytes() - direct_bytes;
    if (left == 0) break;
    const std::uint64_t usable = std::min(left, align_down(piece.size(), store_page));
    if (usable > 0) {
      if (reinterpret_cast<std::uintptr_t>(piece.data()) % alignment != 0) return false;
      pieces.push_back(piece.first(usable));
      direct_bytes += usable;
    }
    // A piece that ends inside a page: no other may follow it.
    if (usable < left && usable != piece.size() && &piece != &room().back()) return false;
  }
  return payload_bytes() - direct_bytes <= store_page;
}

bool Engine::GetOp::prepare(Engine& engine) {
  const bool direct = !location.coded && staged == nullptr && plan_direct(engine.device_.facts().alignment);
  if (!direct) {
    pieces.assign(1, {});
    direct_bytes = 0;
  }
  const std::uint64_t bounced = payload_bytes() - direct_bytes;
  buffer = engine.buffers_.take(header_bytes() + bounced);
  if (!buffer) return false;
  pieces[0] = buffer.span().first(header_bytes());
  if (bounced > 0) pieces.push_back(buffer.span().subspan(header_bytes()));
  aim(engine, location.segment, location.page);
  return true;
}

void Engine::GetOp::check(Engine& engine) {
  outcome = status ? verify(engine) : status.error().code == Code::corrupt ? Outcome::corrupt : Outcome::failed;
  if (outcome != Outcome::hit) wipe();
}

Outcome Engine::GetOp::verify(Engine& engine) {
  const auto record = parse_record(buffer.span().first(header_bytes()), engine.store_, engine.sealer_.get());
  if (!record && record.error().code == Code::not_found) return Outcome::miss;  // erased meanwhile, with its namespace
  if (!record || record->kind != RecordKind::block) return Outcome::corrupt;
  const bool same = record->segment == number_in_path && record->page == location.page &&
                    record->sequence == sequence && record->pages() == location.pages &&
                    (record->codec != 0) == location.coded && record->ns == ns && record->epoch == epoch &&
                    std::ranges::equal(record->key, item.key);
  if (!same) return Outcome::corrupt;
  if (staged != nullptr) {
    if (!engine.memory_.takes(record->raw_bytes)) return Outcome::rejected;
    own_memory = std::make_unique_for_overwrite<std::byte[]>(record->raw_bytes);
    own.buffer = {own_memory.get(), record->raw_bytes};
  }
  if (record->raw_bytes > bytes_of(room())) return Outcome::invalid;
  std::vector<std::span<std::byte>> stored;
  for (std::uint64_t left = record->stored_bytes; const auto& piece : std::span(pieces).subspan(1)) {
    stored.push_back(piece.first(std::min<std::uint64_t>(left, piece.size())));
    left -= stored.back().size();
  }
  std::vector<std::span<const std::byte>> payload(stored.begin(), stored.end());
  if (engine.sealer_ != nullptr) {
    const auto opened = open_payload(*record, *engine.sealer_, stored);
    if (!opened) return opened.error().code == Code::not_found ? Outcome::miss : Outcome::corrupt;
  } else if (!verify_payload(*record, payload)) {
    return Outcome::corrupt;
  }
  if (location.coded) {
    if (!engine.codecs_.decode(*record, payload.front(), room())) return Outcome::corrupt;
    payload.assign(room().begin(), room().end());
  } else if (record->stored_bytes > direct_bytes) {
    const auto rest = buffer.span().subspan(header_bytes(), record->stored_bytes - direct_bytes);
    copy_in(rest, room(), direct_bytes);
  }
  item.bytes = record->raw_bytes;
  const bool keep = engine.settings_.memory_on_get && engine.memory_.takes(item.bytes);
  if (staged != nullptr) {
    copy = own_block(key, ns, epoch, item.key, std::move(own_memory), item.bytes);
  } else if (keep) {
    copy = copy_block(key, ns, epoch, item.key, payload, item.bytes);
  }
  return Outcome::hit;
}

void Engine::GetOp::wipe() {
  for (const auto& piece : room()) std::ranges::fill(piece, std::byte{0});
}

bool Engine::GetOp::finish(Engine& engine) {
  buffer.give_back();
  const bool again = outcome == Outcome::corrupt || outcome == Outcome::failed;
  if (again && !retried) {  // what the bus or the moment did to it is not there the second time
    retried = true;
    return false;
  }
  StoreStats& stats = engine.stats_;
  --engine.segments_[location.segment].readers;
  if (outcome == Outcome::hit) {
    ++(staged != nullptr ? stats.staged : stats.hits);
    // Not if it was erased, and perhaps put anew, meanwhile.
    if (copy != nullptr) {
      const auto now = engine.index_.find(key);
      if (now && now->location == location) engine.memory_.insert(std::move(copy));
    }
    stats.bytes_read += item.bytes;
  } else if (outcome == Outcome::corrupt) {
    ++stats.corrupt;
    engine.forget(key, location);
  } else if (outcome == Outcome::failed) {
    ++stats.failed;
  } else if (outcome == Outcome::miss) {
    ++stats.misses;
    engine.forget(key, location);
  }
  end(engine, outcome);
  return true;
}

void Engine::GetOp::give_up(Engine& engine, Outcome why) {
  --engine.segments_[location.segment].readers;
  if (why == Outcome::late) ++engine.stats_.late;
  wipe();
  end(engine, why);
}

void Engine::GetOp::end(Engine& engine, Outcome what) {
  item.outcome = what;
  if (staged != nullptr) staged->outcome = what;
  engine.answer(batch);
}

// Queues the read of an item, or says at once how it ends. A block in memory goes to `in_memory` instead.
Outcome Engine::begin_get(const Namespace& ns, Get& item, const Batch& batch, const std::shared_ptr<Pending>& pending,
                          std::shared_ptr<const MemoryBlock>& in_memory) {
  if (!is_key(item.key)) return Outcome::invalid;
  if (clock_.now() >= batch.deadline) {
    ++stats_.late;
    return Outcome::late;
  }
  auto op = std::make_unique<GetOp>(item, pending);
  op->key = hash(ns, item.key);
  in_memory = memory_.find(op->key, ns.slot.digest, ns.slot.epoch, item.key);
  const auto entry = touch(ns, op->key);
  if (in_memory != nullptr) return in_memory->bytes > bytes_of(op->room()) ? Outcome::invalid : Outcome::none;
  if (!entry) {
    ++stats_.misses;
    return Outcome::miss;
  }
  const std::uint64_t payload = (entry->location.pages - entry->location.header_pages) * store_page;
  if (bytes_of(op->room()) + store_page <= payload) return Outcome::invalid;
  queue_get(ns, entry->location, batch, std::move(op));
  return Outcome::none;
}

void Engine::queue_get(const Namespace& ns, const BlockLocation& location, const Batch& batch,
                       std::unique_ptr<GetOp> op) {
  Segment& segment = segments_[location.segment];
  ++segment.readers;
  op->location = location;
  op->sequence = segment.sequence;
  op->number_in_path = segments_.number_in_path(location.segment);
  op->ns = ns.slot.digest;
  op->epoch = ns.slot.epoch;
  op->deadline = batch.deadline;
  const bool demand = batch.urgency == Urgency::demand && op->staged == nullptr;
  queue(demand ? IoClass::demand : IoClass::staged, std::move(op));
}

Outcome Engine::begin_stage(const Namespace& ns, Probe& item, const Batch& batch,
                            const std::shared_ptr<Pending>& pending) {
  if (!is_key(item.key)) return Outcome::invalid;
  if (!memory_.takes(1)) return Outcome::rejected;
  if (clock_.now() >= batch.deadline) {
    ++stats_.late;
    return Outcome::late;
  }
  auto op = std::make_unique<GetOp>(item, pending);
  op->key = hash(ns, item.key);
  if (memory_.find(op->key, ns.slot.digest, ns.slot.epoch, item.key) != nullptr) return Outcome::hit;
  const auto entry = index_.find(op->key);
  if (!entry) return Outcome::miss;
  queue_get(ns, entry->location, batch, std::move(op));
  return Outcome::none;
}

void Engine::stage(NamespaceId id, std::span<Probe> items, const Batch& batch, std::function<void()> done) {
  auto pending = std::make_shared<Pending>(Pending{.left = items.size() + 1, .done = std::move(done)});
  const Lock lock(mutex_);
  assert(id < namespaces_.size() && namespaces_[id].used);
  for (Probe& item : items) {
    item.outcome = Outcome::none;
    const Outcome outcome = begin_stage(namespaces_[id], item, batch, pending);
    if (outcome == Outcome::none) continue;
    item.outcome = outcome;
    answer(pending);
  }
  start_queued();
  answer(pending);
}

void Engine::submit(NamespaceId id, std::span<Get> items, const Batch& batch, std::function<void()> done) {
  auto pending = std::make_shared<Pending>(Pending{.left = items.size() + 1, .done = std::move(done)});
  std::vector<std::pair<Get*, std::shared_ptr<const MemoryBlock>>> in_memory;
  Lock lock(mutex_);
  assert(id < namespaces_.size() && namespaces_[id].used);
  for (Get& item : items) {
    item.outcome = Outcome::none;
    item.bytes = 0;
    std::shared_ptr<const MemoryBlock> block;
    item.outcome = begin_get(namespaces_[id], item, batch, pending, block);
    if (item.outcome != Outcome::none) {
      answer(pending);
    } else if (block != nullptr) {
      in_memory.emplace_back(&item, std::move(block));
    }
  }
  start_queued();
  if (!in_memory.empty()) {
    lock.unlock();
    for (const auto& [item, block] : in_memory) copy_in(block->span(), room_of(*item), 0);
    lock.lock();
    for (const auto& [item, block] : in_memory) {
      item->bytes = block->bytes;
      item->outcome = Outcome::hit;
      ++stats_.hits;
      ++stats_.memory_hits;
      answer(pending);
    }
  }
  answer(pending);
}

void Engine::get(NamespaceId ns, std::span<Get> items, const Batch& batch) {
  submit_and_wait(ns, items, batch);
}

}  // namespace artesian
