// Making room: the segment that was opened first gives way. What of it is worth its bytes is carried forward; when the
// copies are durable and the last reader is gone, its header is wiped and it is free.
#include <algorithm>
#include <cassert>

#include "store/engine.h"

namespace artesian {
namespace {

constexpr std::uint32_t free_min = 2;      // per path; below, a segment is reclaimed
constexpr double carry_share_max = 0.5;    // of a segment, pinned blocks with it: the rest makes room
constexpr std::uint32_t carrying_max = 4;  // records on their way at once
constexpr std::uint32_t wipe_attempts = 3;

}  // namespace

// A record on its way from one segment to another: read and verified here, written by CarryWrite.
struct Engine::CarryRead final : Engine::Op {
  bool prepare(Engine& engine) override {
    buffer = engine.buffers_.take(block.entry.location.pages * store_page);
    if (!buffer) return false;
    request.buffer = buffer.span();
    aim(engine, block.entry.location.segment, block.entry.location.page);
    return true;
  }
  void check(Engine& engine) override {
    if (!status) return;
    auto found = engine.record_at(buffer.span(), block, sequence);
    gone = !found && found.error().code == Code::not_found;
    good = found && found->segment == number_in_path && whole_payload_is_good(*found, buffer.span());
    if (!good) return;
    record = std::move(*found);
    if (engine.sealer_ == nullptr) return;
    auto next = engine.sealer_->next(record.scope);
    gone = !next;
    if (next) seal = std::move(*next);
  }
  bool finish(Engine& engine) override;
  void give_up(Engine& engine, Outcome) override { drop(engine); }
  void drop(Engine& engine) {
    engine.forget(block.key, block.entry.location);
    ++engine.stats_.evicted;
    --engine.reclaims_[path]->carrying;
  }

  std::size_t path = 0;
  IndexedBlock block;
  std::uint32_t number_in_path = 0;
  std::uint64_t sequence = 0;
  bool good = false, retried = false;
  bool gone = false;  // with its namespace
  RecordHeader record;
  std::optional<Seal> seal;
};

struct Engine::CarryWrite final : Engine::Op {
  CarryWrite() { request.op = IoOp::write; }

  bool prepare(Engine& engine) override {
    const auto found =
        engine.place(block.entry.location.pages, block.entry.location.lifetime, &engine.segments_.paths()[path]);
    if (!found) return false;
    at = *found;
    generation = record.generation;
    record.segment = engine.segments_.number_in_path(at.segment);
    record.page = at.page;
    record.sequence = at.sequence;
    record.lifetime = engine.segments_[at.segment].lifetime;
    if (seal) seal->nonce = engine.sealer_->next_nonce();
    if (!rewrite_record(record, engine.store_, buffer.span(), seal ? &*seal : nullptr)) {
      --engine.segments_[at.segment].writers;
      return false;
    }
    request.buffer = buffer.span();
    aim(engine, at.segment, at.page);
    request.placement = {static_cast<std::uint16_t>(record.lifetime + 1)};
    entry = {
        .key = block.key,
        .parent = record.parent.empty() ? KeyHash{} : hash_key(engine.secret_, record.ns, record.epoch, record.parent),
        .generation = record.generation,
        .page = at.page,
        .pages = block.entry.location.pages,
        .header_pages = block.entry.location.header_pages,
        .position = record.position,
        .lifetime = record.lifetime,
        .codec = record.codec,
        .session = record.session};
    return true;
  }
  bool finish(Engine& engine) override;
  void give_up(Engine& engine, Outcome) override {
    engine.forget(block.key, block.entry.location);
    ++engine.stats_.evicted;
    --engine.reclaims_[path]->carrying;
  }

  std::size_t path = 0;
  IndexedBlock block;
  RecordHeader record;  // what is read of it lies in the buffer
  std::optional<Seal> seal;
  IndexEntry entry;
  Place at;
  std::uint64_t generation = 0;
};

bool Engine::CarryRead::finish(Engine& engine) {
  if (gone) {
    drop(engine);
    return true;
  }
  if (!good && !retried) {
    retried = true;
    buffer.give_back();
    return false;
  }
  if (!good) {
    ++engine.stats_.corrupt;
    drop(engine);
    return true;
  }
  auto write = std::make_unique<CarryWrite>();
  write->path = path;
  write->block = block;
  write->record = std::move(record);
  write->seal = std::move(seal);
  write->buffer = std::move(buffer);
  // In front: a put that waits for room waits for this.
  engine.queue(IoClass::write, std::move(write), true);
  return true;
}

bool Engine::CarryWrite::finish(Engine& engine) {
  const std::uint64_t bytes = request.bytes();
  buffer.give_back();
  engine.written(at, status.has_value());
  BlockLocation to = block.entry.location;
  to.segment = at.segment;
  to.page = at.page;
  to.lifetime = entry.lifetime;
  if (status && engine.index_.move(block.key, block.entry.location, to)) {
    Segment& segment = engine.segments_[at.segment];
    engine.segments_[block.entry.location.segment].live_pages -= to.pages;
    segment.live_pages += to.pages;
    segment.generation_max = std::max(segment.generation_max, generation);
    segment.entries.push_back(entry);
    ++engine.stats_.carried;
    engine.stats_.bytes_carried += bytes;
    engine.stats_.bytes_written += bytes;
  } else {
    // Erased meanwhile, or not written for certain: the copy must not be found after a restart.
    engine.note_erasure({block.key, generation, at.sequence});
    engine.forget(block.key, block.entry.location);
  }
  --engine.reclaims_[path]->carrying;
  engine.seal_closed();
  return true;
}

// The header page of a segment that is given up: zeros.
struct Engine::WipeOp final : Engine::Op {
  WipeOp() { request.op = IoOp::write; }

  bool prepare(Engine& engine) override {
    buffer = engine.buffers_.take_small(store_page);
    if (!buffer) return false;
    std::ranges::fill(buffer.span(), std::byte{0});
    request.buffer = buffer.span();
    aim(engine, segment, 0);
    return true;
  }
  bool finish(Engine& engine) override {
    buffer.give_back();
    if (!status && ++attempts < wipe_attempts) return false;
    end(engine, status.has_value());
    return true;
  }
  void give_up(Engine& engine, Outcome) override { end(engine, false); }
  void end(Engine& engine, bool well) {
    if (well) {
      engine.segments_.free(segment);
      engine.count_frame(store_page);
      ++engine.stats_.segments_reclaimed;
    } else {
      engine.fail_path(engine.segments_.paths()[path], "a segment cannot be wiped");
    }
    engine.reclaims_[path].reset();
    engine.wiping_ = false;
  }

  std::size_t path = 0;
  std::uint32_t segment = 0, attempts = 0;
};

// Tells the drive which segments hold nothing any more: else it keeps them, and the ends that records did not fill,
// until they are overwritten. Only when their wipe is durable: a crash that undid it would find a header with nothing
// behind it. Not the header itself: it must read as zeros.
void Engine::discard_freed() {
  for (const std::uint32_t segment : std::exchange(freed_, {})) {
    if (segments_[segment].state != Segment::State::free) continue;  // something new is written there
    const Segments::Path& path = segments_.path_of(segment);
    // Best effort: what is not discarded is overwritten one day.
    static_cast<void>(
        device_.discard(path.file, segments_.offset(segment, 1), path.superblock.segment_bytes - store_page));
  }
}

// Whether records of a segment that gives way are still to be placed elsewhere.
bool Engine::carrying(std::size_t path) const {
  return reclaims_[path] && (!reclaims_[path]->carry.empty() || reclaims_[path]->carrying > 0);
}

// Begins where room is short and goes on where something has ended.
void Engine::step_reclaim() {
  for (std::size_t i = 0; i < reclaims_.size(); ++i) {
    const Segments::Path& path = segments_.paths()[i];
    if (!reclaims_[i] && !path.failed && path.free < free_min) {
      if (const auto oldest = segments_.oldest_sealed(path)) begin_reclaim(i, *oldest);
    }
    if (reclaims_[i]) step(i);
  }
}

// Waits for those under way: what they have evicted is gone, and a flush behind the wipe keeps it from coming back.
void Engine::finish_reclaims(Lock& lock) {
  for (std::size_t path = 0; path < reclaims_.size(); ++path) {
    if (!reclaims_[path]) continue;
    const std::uint64_t sequence = segments_[reclaims_[path]->segment].sequence;
    drive_until(lock, [&] { return !reclaims_[path] || segments_[reclaims_[path]->segment].sequence != sequence; });
  }
}

void Engine::begin_reclaim(std::size_t path, std::uint32_t segment, Keep keep) {
  constexpr std::size_t at_once = 256;
  reclaims_[path] = Reclaim{.segment = segment};
  segments_[segment].state = Segment::State::reclaiming;
  BlockIndex::SegmentCursor cursor{};
  std::vector<IndexedBlock> blocks;
  for (std::size_t before = SIZE_MAX; before != blocks.size();) {
    before = blocks.size();
    index_.blocks_of(segment, cursor, at_once, blocks);
  }
  const auto most = static_cast<std::uint64_t>(segments_.paths()[path].superblock.segment_pages() * carry_share_max);
  std::uint64_t pinned = 0;
  const auto free_ones = std::ranges::stable_partition(
      blocks, [&](const IndexedBlock& block) { return keep == Keep::all || pins_.contains(block.key); });
  for (const IndexedBlock& block : std::span(blocks.begin(), free_ones.begin())) {
    pinned += block.entry.location.pages;
    reclaims_[path]->carry.push_back(block);
  }
  policies_.budget().spend(pinned * store_page, clock_.now());
  choose_carried(path, free_ones, most - std::min(most, pinned));
}

// What is worth its bytes once more goes to the pinned ones, the rest goes.
void Engine::choose_carried(std::size_t path, std::span<const IndexedBlock> blocks, std::uint64_t pages_max) {
  std::vector<KvFacts> facts;
  std::vector<std::uint64_t> words;
  for (const IndexedBlock& block : blocks) {
    const BlockIndex::Parent parent = index_.parent(block.key);
    facts.push_back(
        {.key = block.key, .parent = parent.key, .pages = block.entry.location.pages, .parent_stored = parent.stored});
    words.push_back(block.entry.policy);
  }
  std::vector<bool> carried;
  policies_.carry(facts, words, pages_max, clock_.now(), carried);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (carried[i]) {
      index_.set_policy(blocks[i].key, words[i]);
      reclaims_[path]->carry.push_back(blocks[i]);
    } else {
      forget(blocks[i].key, blocks[i].entry.location);
      ++stats_.evicted;
    }
  }
}

void Engine::step(std::size_t path) {
  Reclaim& reclaim = *reclaims_[path];
  Segment& segment = segments_[reclaim.segment];
  using Step = Reclaim::Step;
  if (reclaim.step == Step::carry) {
    while (!reclaim.carry.empty() && reclaim.carrying < carrying_max) {
      auto op = std::make_unique<CarryRead>();
      op->path = path;
      op->block = reclaim.carry.front();
      op->number_in_path = segments_.number_in_path(reclaim.segment);
      op->sequence = segment.sequence;
      reclaim.carry.pop_front();
      ++reclaim.carrying;
      reclaim.must_flush = true;
      queue(IoClass::reclaim, std::move(op));
    }
    if (reclaim.carrying > 0) return;
    // What its erasures void may still be on flash, in itself, too: a crash may undo the wipe.
    for (const Erasure& erasure : std::exchange(segment.erasures, {})) {
      if (segments_.may_be_on_flash(erasure.sequence)) {
        erasures_.push_back(erasure);
        reclaim.must_flush = true;
      }
    }
    reclaim.step = Step::erasures;
    if (reclaim.must_flush) write_erasures();
  }
  if (reclaim.step == Step::erasures) {
    if (reclaim.must_flush && erasures_under_way_ > 0) return;
    reclaim.step = Step::flush;
  }
  if (reclaim.step == Step::flush) {
    // Wipes become durable in the order of evictions: else an old version could outlive the newer one that followed it.
    if (wiping_) return;
    if (!reclaim.waiting && (reclaim.must_flush || segments_.has_stale())) {
      reclaim.waiting = true;
      flush_paths([this, path](bool) {
        reclaims_[path]->waiting = false;
        reclaims_[path]->must_flush = false;
      });
    }
    if (reclaim.waiting) return;
    wiping_ = true;
    reclaim.step = Step::wipe;
  }
  if (reclaim.waiting || segment.readers > 0) return;
  reclaim.waiting = true;
  auto op = std::make_unique<WipeOp>();
  op->path = path;
  op->segment = reclaim.segment;
  queue(IoClass::write, std::move(op), true);
}

}  // namespace artesian
