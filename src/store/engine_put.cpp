// Writing: blocks, the frames of segments around them, erasures, and the flush behind all of it. A block becomes
// visible when its record is written, whole; a put that fails leaves nothing that could be seen later.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "store/engine.h"

namespace artesian {
namespace {

constexpr std::uint32_t write_attempts = 3;   // of frames, without which a segment's records are lost
constexpr std::uint32_t path_errors_max = 8;  // failed writes in a row
constexpr std::size_t erasures_at_once = store_page / erasure_bytes;

}  // namespace

struct Engine::PutOp final : Engine::Op {
  PutOp(Put& put, std::shared_ptr<Pending> pending) : item(put), batch(std::move(pending)) { request.op = IoOp::write; }

  std::span<const std::span<const std::byte>> data() const {
    return item.pieces.empty() ? std::span<const std::span<const std::byte>>(&item.data, 1) : item.pieces;
  }
  Outcome look(const Engine& engine);
  bool aligned(std::uint64_t alignment) const;
  bool take_buffer(Engine& engine, std::uint64_t payload_bytes);
  bool encode(Engine& engine);
  bool encrypt(Engine& engine, bool coded);
  bool copy(Engine& engine);
  bool prepare(Engine& engine) override;
  void check(Engine& engine) override;
  bool finish(Engine& engine) override;
  void give_up(Engine& engine, Outcome why) override;
  void end(Engine& engine, Outcome outcome);
  bool take_seal(Engine& engine);
  bool admit(Engine& engine, const Namespace& space);
  Outcome publish(Engine& engine);

  Put& item;
  std::shared_ptr<Pending> batch;
  RecordHeader header;
  std::vector<Extent> extents;
  KeyHash key, parent;
  NamespaceId ns = 0;
  KvFacts facts;
  std::uint64_t charged = 0;  // to the budget, and not yet written
  std::uint32_t header_pages = 0;
  CodecId codec = CodecId::none;
  std::optional<Seal> seal;  // of the header; the payload has a nonce of its own
  ElementType type = ElementType::unknown;
  bool direct = false;
  std::optional<Place> at;
  std::shared_ptr<const MemoryBlock> memory_copy;
};

// Limits; without the lock.
Outcome Engine::PutOp::look(const Engine& engine) {
  const std::uint64_t bytes = bytes_of(data());
  if (!is_key(item.key) || item.parent.size() > key_bytes_limit || item.attributes.size() > attribute_bytes_limit ||
      bytes == 0 || bytes > engine.block_bytes_max_ || item.extents.size() > extents_limit) {
    return Outcome::invalid;
  }
  std::uint64_t from = 0;
  const auto whole = static_cast<std::uint32_t>(bytes);
  for (const std::uint32_t size : item.extents.empty() ? std::span(&whole, 1) : item.extents) {
    if (size > bytes - from) return Outcome::invalid;
    extents.push_back({size, size, 0});
    from += size;
  }
  if (from != bytes) return Outcome::invalid;
  header.stored_bytes = header.raw_bytes = whole;
  header.session = item.hints.session;
  header.position = item.hints.position;
  header.tokens = item.hints.tokens;
  header.deadline_ms = item.hints.deadline_ms;
  header.next_use_ms = item.hints.next_use_ms;
  header.key = item.key;
  header.parent = item.parent;
  header.attributes = item.attributes;
  const bool sealed = engine.sealer_ != nullptr;
  header_pages =
      record_header_pages(item.key.size(), item.parent.size(), item.attributes.size(), extents.size(), sealed);
  direct = !sealed && aligned(engine.device_.facts().alignment);
  return Outcome::none;
}

// Whether the device can take whole pages from where they are.
bool Engine::PutOp::aligned(std::uint64_t alignment) const {
  if (data().size() > pieces_limit - 2) return false;
  for (const auto& piece : data()) {
    const bool last = &piece == &data().back();
    if (reinterpret_cast<std::uintptr_t>(piece.data()) % alignment != 0) return false;
    if (!last && piece.size() % store_page != 0) return false;
  }
  return true;
}

bool Engine::PutOp::take_buffer(Engine& engine, std::uint64_t payload_bytes) {
  const std::lock_guard lock(engine.mutex_);
  buffer = engine.buffers_.take(header_pages * store_page + payload_bytes);
  return static_cast<bool>(buffer);
}

// The payload as the codec makes it, behind the header; false if it is to be stored as it is. The lock is not held.
bool Engine::PutOp::encode(Engine& engine) {
  if (codec == CodecId::none || !take_buffer(engine, pages_of(header.raw_bytes) * store_page)) return false;
  const auto behind = buffer.span().subspan(header_pages * store_page);
  const auto stored = engine.codecs_.encode(codec, type, data(), behind, extents);
  if (!stored) {
    const std::lock_guard lock(engine.mutex_);
    buffer.give_back();
    return false;
  }
  direct = false;
  header.codec = static_cast<std::uint8_t>(codec);
  header.stored_bytes = static_cast<std::uint32_t>(*stored);
  const std::uint64_t payload = pages_of(*stored) * store_page;
  std::ranges::fill(behind.subspan(*stored, payload - *stored), std::byte{0});
  buffer.shrink(header_pages * store_page + payload);
  return true;
}

// The payload, coded or as the caller has it, sealed behind the header. The lock is not held.
bool Engine::PutOp::encrypt(Engine& engine, bool coded) {
  if (!coded && !take_buffer(engine, pages_of(header.stored_bytes) * store_page)) return false;
  const auto behind = buffer.span().subspan(header_pages * store_page);
  const std::span<const std::byte> own = behind.first(header.stored_bytes);
  header.payload_nonce = engine.sealer_->next_nonce();
  std::ranges::fill(behind.subspan(header.stored_bytes), std::byte{0});
  return seal_payload(header, seal->key, coded ? Pieces<const std::byte>(&own, 1) : data(), behind, extents);
}

// Checksums, and what cannot be taken from where it is goes behind the header. The lock is not held.
bool Engine::PutOp::copy(Engine& engine) {
  const bool coded = encode(engine);
  if (seal) return encrypt(engine, coded);
  if (coded) return true;
  for (std::uint64_t from = 0; Extent & extent : extents) {
    extent.crc = crc32c_of(data(), from, extent.raw_bytes);
    from += extent.raw_bytes;
  }
  const std::uint64_t payload = pages_of(header.stored_bytes) * store_page;
  const std::uint64_t tail = header.stored_bytes % store_page;
  const std::uint64_t copied = direct ? tail : header.stored_bytes;
  const std::uint64_t room = direct ? (tail > 0 ? store_page : 0) : payload;
  if (!take_buffer(engine, room)) return false;
  const auto behind = buffer.span().subspan(header_pages * store_page);
  copy_out(data(), header.stored_bytes - copied, behind.first(copied));
  std::ranges::fill(behind.subspan(copied), std::byte{0});
  return true;
}

bool Engine::PutOp::prepare(Engine& engine) {
  const auto pages = static_cast<std::uint32_t>(header_pages + pages_of(header.stored_bytes));
  at = engine.place(pages, item.hints.lifetime, nullptr);
  if (!at) return false;
  header.segment = engine.segments_.number_in_path(at->segment);
  header.page = at->page;
  header.sequence = at->sequence;
  header.lifetime = engine.segments_[at->segment].lifetime;
  header.generation = ++engine.generation_;
  const std::uint64_t header_bytes = header_pages * store_page;
  if (seal) seal->nonce = engine.sealer_->next_nonce();
  if (!encode_record(header, extents, engine.store_, buffer.span().first(header_bytes), seal ? &*seal : nullptr)) {
    --engine.segments_[at->segment].writers;
    return false;
  }
  pieces.assign(1, buffer.span().first(header_bytes));
  if (direct) {
    for (const auto& piece : data()) {
      const auto whole = piece.first(align_down(piece.size(), store_page));
      // The device does not change what it writes.
      if (!whole.empty()) pieces.push_back({const_cast<std::byte*>(whole.data()), whole.size()});
    }
  }
  if (buffer.span().size() > header_bytes) pieces.push_back(buffer.span().subspan(header_bytes));
  aim(engine, at->segment, at->page);
  request.placement = {static_cast<std::uint16_t>(header.lifetime + 1)};
  return true;
}

void Engine::PutOp::check(Engine& engine) {
  const bool keep = status && engine.settings_.memory_on_put && engine.memory_.takes(header.raw_bytes);
  if (keep) memory_copy = copy_block(key, header.ns, header.epoch, item.key, data(), header.raw_bytes);
}

bool Engine::PutOp::finish(Engine& engine) {
  buffer.give_back();
  const bool well = status.has_value();
  engine.written(*at, well);
  Outcome outcome = Outcome::failed;
  if (well) {
    engine.stats_.bytes_written += request.bytes();
    charged -= std::min(charged, request.bytes());
    outcome = publish(engine);
  }
  // All of it may be on flash in spite of everything. Nobody was told that it is stored, so nobody may find it later.
  if (outcome != Outcome::stored) engine.note_erasure({key, header.generation, header.sequence});
  engine.seal_closed();
  end(engine, outcome);
  return true;
}

Outcome Engine::PutOp::publish(Engine& engine) {
  Segment& segment = engine.segments_[at->segment];
  const auto pages = static_cast<std::uint16_t>(header_pages + pages_of(header.stored_bytes));
  const BlockLocation location{.segment = at->segment,
                               .page = at->page,
                               .pages = pages,
                               .header_pages = static_cast<std::uint8_t>(header_pages),
                               .lifetime = header.lifetime,
                               .coded = header.codec != 0};
  const std::uint64_t policy = engine.policies_.on_put(ns, facts, engine.clock_.now());
  if (!engine.index_.insert(key, parent, {.location = location, .policy = policy})) return Outcome::rejected;
  segment.live_pages += pages;
  segment.generation_max = std::max(segment.generation_max, header.generation);
  segment.entries.push_back({.key = key,
                             .parent = parent,
                             .generation = header.generation,
                             .page = at->page,
                             .pages = pages,
                             .header_pages = location.header_pages,
                             .position = header.position,
                             .lifetime = header.lifetime,
                             .codec = header.codec,
                             .session = header.session});
  engine.stats_.bytes_put += header.raw_bytes;
  engine.stats_.bytes_saved += header.raw_bytes - header.stored_bytes;
  return Outcome::stored;
}

void Engine::PutOp::give_up(Engine& engine, Outcome why) {
  if (why == Outcome::late) ++engine.stats_.late;
  buffer.give_back();
  end(engine, why);
}

void Engine::PutOp::end(Engine& engine, Outcome outcome) {
  if (outcome == Outcome::stored) {
    ++engine.stats_.stored;
    if (memory_copy != nullptr) engine.memory_.insert(std::move(memory_copy));
  }
  if (outcome == Outcome::failed) ++engine.stats_.put_failed;
  if (outcome == Outcome::rejected) ++engine.stats_.shed;
  engine.policies_.budget().give_back(charged);
  engine.puts_.erase(key);
  item.outcome = outcome;
  engine.answer(batch);
}

// False only if there is no memory for it.
bool Engine::PutOp::take_seal(Engine& engine) {
  if (engine.sealer_ == nullptr) return true;
  auto next = engine.sealer_->next(engine.scope_of(ns));
  if (next) seal = std::move(*next);
  return next.has_value();
}

// Whether policy and budget let it be written; its bytes, not yet coded, are charged.
bool Engine::PutOp::admit(Engine& engine, const Namespace& space) {
  facts = {.key = key,
           .parent = parent,
           .pages = static_cast<std::uint32_t>(header_pages + pages_of(header.stored_bytes)),
           .position = header.position,
           .partial = header.tokens != 0 && header.tokens < space.block_tokens,
           .parent_stored = parent.none() || engine.has(parent) || engine.puts_.contains(parent)};
  if (!engine.policies_.admit(ns, facts, engine.clock_.now())) return false;
  charged = kv_bytes(facts);
  return true;
}

void Engine::submit(NamespaceId id, std::span<Put> items, const Batch& batch, std::function<void()> done) {
  auto pending = std::make_shared<Pending>(Pending{.left = items.size() + 1, .done = std::move(done)});
  for (Put& item : items) {
    auto op = std::make_unique<PutOp>(item, pending);
    Outcome outcome = op->look(*this);
    {
      const std::lock_guard lock(mutex_);
      assert(id < namespaces_.size() && namespaces_[id].used);
      const Namespace& ns = namespaces_[id];
      op->ns = id;
      op->header.ns = ns.slot.digest;
      op->header.epoch = ns.slot.epoch;
      op->codec = ns.codec;
      op->type = ns.type;
      op->deadline = batch.deadline;
      if (outcome == Outcome::none) {
        op->key = hash(ns, item.key);
        if (!item.parent.empty()) op->parent = hash(ns, item.parent);
        const auto& waiting = queues_[static_cast<std::size_t>(IoClass::write)];
        const bool reads_wait = free_tags_.empty() && !queues_[static_cast<std::size_t>(IoClass::demand)].empty();
        if (clock_.now() >= batch.deadline) {
          ++stats_.late;
          outcome = Outcome::late;
        } else if (index_.find(op->key)) {
          ++stats_.present;
          outcome = Outcome::present;
        } else if (waiting.size() >= settings_.put_queue_max || (reads_wait && !waiting.empty()) ||
                   puts_.contains(op->key) || !op->take_seal(*this)) {
          ++stats_.shed;
          outcome = Outcome::rejected;
        } else if (!op->admit(*this, ns)) {
          ++stats_.refused;
          outcome = Outcome::rejected;
        } else {
          puts_.insert(op->key);
        }
      }
      item.outcome = outcome;
      if (outcome != Outcome::none) {
        answer(pending);
        continue;
      }
    }
    const bool ready = op->copy(*this);
    const std::lock_guard lock(mutex_);
    if (ready) {
      queue(IoClass::write, std::move(op));
    } else {
      op->buffer.give_back();
      op->end(*this, Outcome::rejected);
    }
    start_queued();
  }
  const std::lock_guard lock(mutex_);
  answer(pending);
}

void Engine::put(NamespaceId ns, std::span<Put> items, const Batch& batch) {
  submit_and_wait(ns, items, batch);
}

// The header page of a segment that was opened. Without it a crash loses what is in it.
struct Engine::HeaderOp final : Engine::Op {
  explicit HeaderOp(std::uint32_t opened) : segment(opened) { request.op = IoOp::write; }

  bool prepare(Engine& engine) override {
    buffer = engine.buffers_.take_small(store_page);
    if (!buffer) return false;
    const Segment& opened = engine.segments_[segment];
    encode_segment_header({.segment = engine.segments_.number_in_path(segment),
                           .sequence = opened.sequence,
                           .generation = engine.generation_,
                           .lifetime = opened.lifetime,
                           .placement = static_cast<std::uint16_t>(opened.lifetime + 1)},
                          engine.store_, buffer.span());
    request.buffer = buffer.span();
    aim(engine, segment, 0);
    return true;
  }

  bool finish(Engine& engine) override {
    buffer.give_back();
    Segment& opened = engine.segments_[segment];
    if (!status && ++attempts < write_attempts) return false;
    --opened.writers;
    opened.header_failed = !status;
    if (status) {
      engine.count_frame(store_page);
    } else {
      Segments::Path& path = engine.segments_.path_of(segment);
      engine.fail_path(path, "the header of a segment cannot be written");  // nothing there could be found again
      for (std::uint8_t lifetime = 0; lifetime < path.lifetimes; ++lifetime) {
        if (path.open[lifetime] == segment) engine.segments_.close_open(path, lifetime);
      }
    }
    engine.seal_closed();
    return true;
  }

  std::uint32_t segment;
  std::uint32_t attempts = 0;
};

// Index and footer of a segment to which nothing more is added.
struct Engine::SealOp final : Engine::Op {
  explicit SealOp(std::uint32_t closed) : segment(closed) { request.op = IoOp::write; }

  bool prepare(Engine& engine) override {
    Segment& sealing = engine.segments_[segment];
    Segments::Path& path = engine.segments_.path_of(segment);
    const std::uint32_t index_pages = index_pages_of(sealing.entries.size());
    const std::uint32_t first = path.superblock.segment_pages() - 1 - index_pages;
    buffer = engine.buffers_.take_small((index_pages + 1) * store_page);
    if (!buffer) return false;
    const auto index = buffer.span().first(index_pages * store_page);
    encode_index(sealing.entries, index);
    SegmentFooter footer{.segment = segment - path.first,
                         .sequence = sealing.sequence,
                         .generation = sealing.generation_max,
                         .entries = static_cast<std::uint32_t>(sealing.entries.size()),
                         .index_page = first,
                         .end_page = sealing.next_page};
    if (engine.sealer_ != nullptr) {
      const auto seal = engine.sealer_->next(scope_index);
      if (!seal || !seal_index(*seal, footer, index)) return false;
    }
    footer.index_crc = crc32c(index);
    encode_segment_footer(footer, engine.store_, buffer.span().subspan(index.size()));
    request.buffer = buffer.span();
    aim(engine, segment, first);
    return true;
  }

  // Without an index it is walked after a crash, no more.
  bool finish(Engine& engine) override {
    buffer.give_back();
    Segment& sealing = engine.segments_[segment];
    sealing.state = Segment::State::sealed;
    sealing.entries = {};
    if (status) engine.count_frame(request.bytes());
    return true;
  }
  void give_up(Engine& engine, Outcome) override {
    engine.segments_[segment].state = Segment::State::sealed;
    engine.segments_[segment].entries = {};
  }

  std::uint32_t segment;
};

// Room for a record on one of the paths, by turns, or on the one given (for what is carried forward there, which may
// use the last free segment).
std::optional<Place> Engine::place(std::uint32_t pages, std::uint8_t lifetime, const Segments::Path* only) {
  auto& paths = segments_.paths();
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::size_t number = (next_path_ + i) % paths.size();
    Segments::Path& path = paths[number];
    if (path.failed || (only != nullptr && only != &path)) continue;
    // The last room is for what is carried forward: without it the segment that gives way could not be emptied.
    if (only == nullptr && path.free == 0 && carrying(number)) continue;
    const auto found = segments_.place(path, lifetime, pages, only != nullptr ? 0 : 1, generation_ + 1);
    if (segments_.opened) {
      ++generation_;
      ++segments_[*segments_.opened].writers;  // its header
      queue(IoClass::write, std::make_unique<HeaderOp>(*segments_.opened), true);
    }
    seal_closed();
    if (!found) continue;
    next_path_ = (next_path_ + i + 1) % paths.size();
    return found;
  }
  return std::nullopt;
}

// A record's write has ended.
void Engine::written(const Place& place, bool well) {
  --segments_[place.segment].writers;
  Segments::Path& path = segments_.path_of(place.segment);
  path.errors = well ? 0 : path.errors + 1;
  if (path.errors >= path_errors_max) fail_path(path, "too many writes in a row have failed");
}

void Engine::fail_path(Segments::Path& path, std::string_view why) {
  if (path.failed) return;
  path.failed = true;
  if (settings_.report) settings_.report(fmt::format("path {}: {}; nothing more is written there", path.file, why));
}

void Engine::seal_closed() {
  std::erase_if(segments_.closed, [&](std::uint32_t segment) {
    if (segments_[segment].writers > 0) return false;
    queue(IoClass::write, std::make_unique<SealOp>(segment), true);
    return true;
  });
}

// Erased keys and failed puts, so that a restart does not bring them back.
struct Engine::ErasuresOp final : Engine::Op {
  explicit ErasuresOp(std::vector<Erasure> some) : erasures(std::move(some)) { request.op = IoOp::write; }

  bool prepare(Engine& engine) override {
    at = engine.place(2, 0, nullptr);
    if (!at) at = engine.place(2, 0, &engine.segments_.paths().front());
    if (!at) return false;
    buffer = engine.buffers_.take_small(2 * store_page);
    if (!buffer) {
      --engine.segments_[at->segment].writers;
      return false;
    }
    const auto payload = buffer.span().subspan(store_page);
    std::ranges::fill(payload, std::byte{0});
    const auto bytes = static_cast<std::uint32_t>(erasures.size() * erasure_bytes);
    encode_erasures(erasures, payload.first(bytes));
    RecordHeader header{.kind = RecordKind::erasures, .stored_bytes = bytes, .raw_bytes = bytes};
    header.segment = engine.segments_.number_in_path(at->segment);
    header.page = at->page;
    header.sequence = at->sequence;
    header.generation = generation = ++engine.generation_;
    if (!encode(engine, header, payload.first(bytes))) {
      --engine.segments_[at->segment].writers;
      return false;
    }
    request.buffer = buffer.span();
    aim(engine, at->segment, at->page);
    return true;
  }

  bool encode(Engine& engine, RecordHeader& header, std::span<std::byte> payload) {
    Extent extent{header.stored_bytes, header.raw_bytes, crc32c(payload)};
    const auto own = std::span(&extent, 1);
    const auto page = buffer.span().first(store_page);
    if (engine.sealer_ == nullptr) return encode_record(header, own, engine.store_, page);
    const auto seal = engine.sealer_->next(scope_records);
    if (!seal) return false;
    header.payload_nonce = engine.sealer_->next_nonce();
    const std::span<const std::byte> plain = payload;
    return seal_payload(header, seal->key, std::span(&plain, 1), payload, own) &&
           encode_record(header, own, engine.store_, page, &*seal);
  }

  bool finish(Engine& engine) override {
    buffer.give_back();
    engine.written(*at, status.has_value());
    if (status) {
      Segment& segment = engine.segments_[at->segment];
      segment.erasures.insert(segment.erasures.end(), erasures.begin(), erasures.end());
      segment.generation_max = std::max(segment.generation_max, generation);
      segment.entries.push_back(
          {.generation = generation, .page = at->page, .pages = 2, .header_pages = 1, .kind = RecordKind::erasures});
      engine.count_frame(request.bytes());
    }
    end(engine, status.has_value());
    engine.seal_closed();
    return true;
  }
  void give_up(Engine& engine, Outcome) override { end(engine, false); }

  void end(Engine& engine, bool well) {
    if (!well) {
      engine.erasures_.insert(engine.erasures_.end(), erasures.begin(), erasures.end());
      engine.erasures_failed_ = true;
    }
    --engine.erasures_under_way_;
  }

  std::vector<Erasure> erasures;
  std::uint64_t generation = 0;
  std::optional<Place> at;
};

void Engine::note_erasure(const Erasure& erasure) {
  erasures_.push_back(erasure);
  if (erasures_.size() >= erasures_at_once && erasures_under_way_ == 0) write_erasures();
}

void Engine::write_erasures() {
  // What is no longer on flash needs no word about it.
  std::erase_if(erasures_, [&](const Erasure& erasure) { return !segments_.may_be_on_flash(erasure.sequence); });
  while (!erasures_.empty()) {
    const auto end = erasures_.begin() + static_cast<std::ptrdiff_t>(std::min(erasures_.size(), erasures_at_once));
    queue(IoClass::write, std::make_unique<ErasuresOp>(std::vector<Erasure>(erasures_.begin(), end)));
    erasures_.erase(erasures_.begin(), end);
    ++erasures_under_way_;
  }
}

struct Engine::FlushOp final : Engine::Op {
  bool prepare(Engine& engine) override {
    request.op = IoOp::flush;
    request.file = engine.segments_.paths()[path].file;
    stale = engine.segments_.take_stale(engine.segments_.paths()[path]);
    return true;
  }
  bool finish(Engine& engine) override {
    if (status) {
      engine.segments_.forget(stale.sequences);
      if (engine.device_.facts().trims) {
        engine.freed_.insert(engine.freed_.end(), stale.free.begin(), stale.free.end());
      }
    } else {  // said once, by this flush: what was written there since the one before may not last
      engine.segments_.paths()[path].lost = true;
      engine.fail_path(engine.segments_.paths()[path], "what was written cannot be made durable");
    }
    done(status.has_value());
    return true;
  }
  void give_up(Engine&, Outcome) override { done(false); }

  std::size_t path = 0;
  Segments::Stale stale;
  std::function<void(bool)> done;
};

// All paths that take writes; `done` hears, under the lock, whether all went well.
void Engine::flush_paths(std::function<void(bool)> done) {
  struct Together {
    std::size_t left = 1;
    bool well = true;
    std::function<void(bool)> done;
    void end(bool good) {
      well = well && good;
      if (--left == 0) done(well);
    }
  };
  auto together = std::make_shared<Together>();
  together->done = std::move(done);
  for (std::size_t i = 0; i < segments_.paths().size(); ++i) {
    if (segments_.paths()[i].lost) continue;
    ++together->left;
    auto op = std::make_unique<FlushOp>();
    op->request.op = IoOp::flush;
    op->path = i;
    op->done = [together](bool good) { together->end(good); };
    queue(IoClass::write, std::move(op), true);
  }
  const bool none_is_left = together->left == 1;
  together->end(!none_is_left);
}

Status Engine::flush() {
  Lock lock(mutex_);
  const std::uint64_t before = last_ticket_ + 1;
  drive_until(lock, [&] { return !writes_before(before); });
  erasures_failed_ = false;
  write_erasures();
  start_queued();
  const std::uint64_t behind = last_ticket_ + 1;
  drive_until(lock, [&] { return !writes_before(behind) && erasures_under_way_ == 0; });
  for (std::uint32_t i = 0; i < segments_.count(); ++i) {
    const Segment& segment = segments_[i];
    if (segments_.path_of(i).lost) continue;
    if (segment.state != Segment::State::free && (segment.live_pages > 0 || !segment.erasures.empty()) &&
        segment.header_failed) {
      segments_.path_of(i).lost = true;
      return fail(Code::device_failed,
                  "path {}: segment {}: its header cannot be written, what is in it is not durable",
                  segments_.path_of(i).file, segments_.number_in_path(i));
    }
  }
  if (erasures_failed_) return fail(Code::device_failed, "erased keys cannot be written down; they may come back");
  finish_reclaims(lock);
  std::optional<bool> flushed;
  flush_paths([&](bool well) { flushed = well; });
  start_queued();
  drive_until(lock, [&] { return flushed.has_value(); });
  if (!*flushed) return fail(Code::device_failed, "the device cannot make durable what was written");
  return {};
}

}  // namespace artesian
