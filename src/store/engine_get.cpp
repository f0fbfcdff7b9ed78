// Reading a block: where it lies by the index, straight into the caller's buffer where that is aligned, and verified
// there: the full key, the place and every checksum. What does not stand is zeroed and forgotten.
#include <algorithm>
#include <cassert>
#include <cstring>
#include <mutex>

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
  void look(Engine& engine, std::span<const std::span<std::byte>> came, bool first);
  void conclude(Engine& engine);
  Outcome begin_verify(Engine& engine);
  Outcome end_verify(Engine& engine);
  bool finish(Engine& engine) override;
  void give_up(Engine& engine, Outcome why) override;
  void take_payload(std::span<std::byte> bytes);
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
  std::optional<RecordHeader> record;  // when it has come, and is the block's
  std::optional<PayloadCheck> payload;
  std::uint64_t unchecked = 0;  // bytes of the payload
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
  if (status) look(engine, pieces, true);
  conclude(engine);
}

// At what has come, in order; first of all the header.
void Engine::GetOp::look(Engine& engine, std::span<const std::span<std::byte>> came, bool first) {
  if (first) {
    outcome = begin_verify(engine);
    came = came.subspan(1);
  }
  for (const auto& piece : came) take_payload(piece);
}

// All of it has come, or could not.
void Engine::GetOp::conclude(Engine& engine) {
  if (!status) {
    outcome = status.error().code == Code::corrupt ? Outcome::corrupt : Outcome::failed;
  } else if (outcome == Outcome::none) {
    outcome = end_verify(engine);
  }
  if (outcome != Outcome::hit) wipe();
}

// The header, when it is there. none: so far it is the block that was asked for, and there is room for it.
Outcome Engine::GetOp::begin_verify(Engine& engine) {
  auto parsed = parse_record(buffer.span().first(header_bytes()), engine.store_, engine.sealer_.get());
  if (!parsed && parsed.error().code == Code::not_found) return Outcome::miss;  // erased meanwhile, with its namespace
  if (!parsed || parsed->kind != RecordKind::block) return Outcome::corrupt;
  const bool same = parsed->segment == number_in_path && parsed->page == location.page &&
                    parsed->sequence == sequence && parsed->pages() == location.pages &&
                    (parsed->codec != 0) == location.coded && parsed->ns == ns && parsed->epoch == epoch &&
                    std::ranges::equal(parsed->key, item.key);
  if (!same) return Outcome::corrupt;
  record = std::move(*parsed);
  if (staged != nullptr) {
    if (!engine.memory_.takes(record->raw_bytes)) return Outcome::rejected;
    own_memory = std::make_unique_for_overwrite<std::byte[]>(record->raw_bytes);
    own.buffer = {own_memory.get(), record->raw_bytes};
  }
  if (record->raw_bytes > bytes_of(room())) return Outcome::invalid;
  auto checked = PayloadCheck::begin(*record, engine.sealer_.get());
  if (!checked) return checked.error().code == Code::not_found ? Outcome::miss : Outcome::failed;
  payload.emplace(std::move(*checked));
  unchecked = record->stored_bytes;
  return Outcome::none;
}

// The next bytes of the payload, in order.
void Engine::GetOp::take_payload(std::span<std::byte> bytes) {
  if (outcome != Outcome::none) return;
  const auto own_part = bytes.first(std::min<std::uint64_t>(unchecked, bytes.size()));
  unchecked -= own_part.size();
  if (!payload->add(own_part)) outcome = Outcome::corrupt;
}

Outcome Engine::GetOp::end_verify(Engine& engine) {
  if (!payload->end()) return Outcome::corrupt;
  if (location.coded) {
    const auto coded = buffer.span().subspan(header_bytes(), record->stored_bytes);
    if (!engine.codecs_.decode(*record, coded, room())) return Outcome::corrupt;
  } else if (record->stored_bytes > direct_bytes) {
    const auto rest = buffer.span().subspan(header_bytes(), record->stored_bytes - direct_bytes);
    copy_in(rest, room(), direct_bytes);
  }
  item.bytes = record->raw_bytes;
  const bool keep = engine.settings_.memory_on_get && engine.memory_.takes(item.bytes);
  if (staged != nullptr) {
    copy = own_block(key, ns, epoch, item.key, std::move(own_memory), item.bytes);
  } else if (keep) {
    const std::vector<std::span<const std::byte>> data(room().begin(), room().end());
    copy = copy_block(key, ns, epoch, item.key, data, item.bytes);
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
  const IoClass io_class = demand ? IoClass::demand : IoClass::staged;
  if (!queue_split(io_class, op)) queue(io_class, std::move(op));
}

// A get that is read in parts, so that the first ones are checked while the others come.
struct Engine::SplitGet {
  struct Part {
    std::uint64_t from = 0;  // in the record
    std::vector<std::span<std::byte>> pieces;
    bool there = false;
  };
  // That part has come, or could not: it is looked at, and those behind it that came before.
  void arrived(Engine& engine, std::size_t part, const Status& status);

  std::unique_ptr<GetOp> get;
  std::uint32_t left = 0;           // parts that have not ended; under the engine's lock, as the next
  std::optional<Outcome> given_up;  // since one of them was
  std::mutex mutex;                 // guards what is below, and the get while it is checked
  std::vector<Part> parts;
  std::size_t looked_at = 0;
};

void Engine::SplitGet::arrived(Engine& engine, std::size_t part, const Status& status) {
  const std::lock_guard lock(mutex);
  if (!status && get->status) get->status = status;
  parts[part].there = true;
  for (; looked_at < parts.size() && parts[looked_at].there; ++looked_at) {
    const Part& came = parts[looked_at];
    if (get->status) get->look(engine, came.pieces, came.from == 0);
  }
  if (looked_at == parts.size()) get->conclude(engine);
}

struct Engine::PartOp final : Engine::Op {
  PartOp(std::shared_ptr<SplitGet> of_get, std::size_t of_part) : split(std::move(of_get)), part(of_part) {}

  bool prepare(Engine&) override {
    request.file = split->get->request.file;
    request.offset = split->get->request.offset + split->parts[part].from;
    pieces = split->parts[part].pieces;
    return true;
  }
  void check(Engine& engine) override { split->arrived(engine, part, status); }
  bool finish(Engine& engine) override {
    end(engine);
    return true;
  }
  void give_up(Engine& engine, Outcome why) override {
    split->given_up = why;
    end(engine);
  }
  void end(Engine& engine) {
    if (--split->left > 0) return;
    if (!split->given_up) return engine.complete(std::move(split->get));  // which may read it once more, in one
    split->get->buffer.give_back();
    split->get->give_up(engine, *split->given_up);
  }

  std::shared_ptr<SplitGet> split;
  std::size_t part = 0;
};

// Only where nobody else reads: the device would have enough to do then. False: it is to be read in one.
bool Engine::queue_split(IoClass io_class, std::unique_ptr<GetOp>& op) {
  constexpr std::uint64_t parts_max = 8;
  const std::uint64_t all = op->header_bytes() + op->payload_bytes();
  const bool alone = at_device_[static_cast<std::size_t>(IoClass::demand)] == 0 &&
                     queues_[static_cast<std::size_t>(IoClass::demand)].empty();
  if (io_class != IoClass::demand || !alone || all < 2 * settings_.part_bytes_min || op->location.coded) return false;
  op->request.io_class = io_class;
  if (!op->prepare(*this)) return false;
  if (op->direct_bytes == 0) {
    op->buffer.give_back();
    return false;
  }
  auto split = std::make_shared<SplitGet>();
  split->get = std::move(op);
  const GetOp& get = *split->get;
  const std::uint64_t size =
      std::max({settings_.part_bytes_min, get.header_bytes(), align_up((all + parts_max - 1) / parts_max, store_page)});
  for (std::uint64_t from = 0; from < all; from += size) {
    SplitGet::Part& part = split->parts.emplace_back(SplitGet::Part{.from = from});
    for_each_part(Pieces<std::byte>(get.pieces), from, std::min(size, all - from),
                  [&](auto piece) { part.pieces.push_back(piece); });
  }
  split->left = static_cast<std::uint32_t>(split->parts.size());
  for (std::size_t i = 0; i < split->parts.size(); ++i) {
    auto part = std::make_unique<PartOp>(split, i);
    part->deadline = get.deadline;
    queue(io_class, std::move(part));
  }
  return true;
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
