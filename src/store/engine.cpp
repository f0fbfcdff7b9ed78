// Opening an engine and what it answers from memory: namespaces, exists, erase, pins, figures.
#include "store/engine.h"

#include <algorithm>
#include <cassert>
#include <nlohmann/json.hpp>

#include "store/blocking_io.h"

namespace artesian {
namespace {

constexpr std::uint64_t bytes_a_block = 16 * KiB;  // the least that an index of default size is made for
// Generations that were given out are never given out again, also if a crash left no trace of them: each opening
// begins this far above what the one before may have used.
constexpr std::uint64_t generations_an_opening = 1ULL << 32;

}  // namespace

const char* outcome_name(Outcome outcome) {
  constexpr const char* names[] = {"none",    "hit",  "stored",   "present", "miss",
                                   "corrupt", "late", "rejected", "failed",  "invalid"};
  return names[static_cast<std::size_t>(outcome)];
}

Result<std::unique_ptr<Engine>> Engine::open(Device& device, const Clock& clock, EngineSettings settings,
                                             std::shared_ptr<void> owned) {
  if (device.facts().alignment != store_page) {
    return fail(Code::invalid, "{}: has an alignment of {}, a store needs {}", device.facts().name,
                device.facts().alignment, store_page);
  }
  auto opened = open_store_layout(device, settings.keys ? &*settings.keys : nullptr, settings.report);
  settings.keys.reset();  // the sealer has them
  if (!opened) return fail(std::move(opened.error()));
  std::uint64_t bytes = 0, segments = 0;
  for (OpenedPath& path : opened->paths) {
    bytes += path.superblock.segments * path.superblock.segment_bytes;
    segments += path.superblock.segments;
  }
  const std::uint64_t blocks = std::min(settings.blocks_max != 0 ? settings.blocks_max : bytes / bytes_a_block + 1024,
                                        BlockIndex::blocks_limit(static_cast<std::uint32_t>(segments)));
  auto index = BlockIndex::create(blocks, static_cast<std::uint32_t>(segments));
  if (!index) return fail(std::move(index.error()));
  std::unique_ptr<Engine> engine(new Engine(device, clock, std::move(settings), std::move(*opened), std::move(*index)));
  engine->owned_ = std::move(owned);
  if (auto recovered = engine->recover(); !recovered) return fail(std::move(recovered.error()));
  return engine;
}

Engine::Engine(Device& device, const Clock& clock, EngineSettings settings, OpenedStore opened, BlockIndex index)
    : device_(device),
      clock_(clock),
      settings_(std::move(settings)),
      store_(opened.paths.front().superblock.store),
      secret_(opened.paths.front().superblock.secret),
      sealer_(std::move(opened.sealer)),
      block_bytes_max_(opened.paths.front().superblock.block_bytes_max),
      opened_(clock.now()),
      buffers_(settings_.buffer_bytes_max),
      index_(std::move(index)),
      memory_(settings_.memory_bytes),
      policies_(opened.namespaces.size(), settings_.write_bytes_per_day != 0
                                              ? settings_.write_bytes_per_day
                                              : opened.paths.front().superblock.write_bytes_per_day),
      segments_(opened.paths),
      old_slots_(opened.old_slots.begin(), opened.old_slots.end()),
      generation_(opened.generation),
      reclaims_(opened.paths.size()),
      named_(std::move(opened.pins)) {
  for (const OpenedPath& path : opened.paths) {
    block_bytes_max_ = std::min(block_bytes_max_, path.superblock.block_bytes_max);
  }
  for (const NamespaceSlot& slot : opened.namespaces) namespaces_.push_back({.slot = slot});
  const std::uint32_t depth = device_.facts().queue_depth_max;
  in_flight_.resize(depth);
  for (std::uint32_t tag = depth; tag-- > 0;) free_tags_.push_back(tag);
  settings_.write_depth_max = std::clamp(settings_.write_depth_max, 1U, std::max(1U, depth / 2));
}

Engine::~Engine() {
  Lock lock(mutex_);
  drive_until(lock, [&] { return idle(); });
  write_superblocks();
}

// What was written before this opening, and in it. The paths' superblocks say the same, but for those that were lost
// for a while.
std::uint64_t Engine::written_ever() const {
  std::uint64_t before = 0;
  for (const auto& path : segments_.paths()) before = std::max(before, path.superblock.written_bytes);
  return before + stats_.bytes_written;
}

// With what they count; nobody else uses the device meanwhile.
void Engine::write_superblocks() {
  const std::uint64_t written = written_ever();
  for (Segments::Path& path : segments_.paths()) {
    if (path.failed) continue;
    Superblock& superblock = path.superblock;
    ++superblock.revision;
    superblock.generation = generation_;
    superblock.written_bytes = written;
    if (superblock.made_ms == 0) superblock.made_ms = settings_.unix_ms;
    if (settings_.write_bytes_per_day != 0) superblock.write_bytes_per_day = settings_.write_bytes_per_day;
    if (auto done = write_superblock(device_, path.file, superblock); !done) {
      fail_path(path, "its superblock cannot be written: " + done.error().message);
    }
  }
}

Status Engine::recover() {
  for (std::size_t path = 0; path < segments_.paths().size(); ++path) {
    if (auto recovered = recover_path(path); !recovered) return recovered;
  }
  std::vector<Erasure> erasures;
  for (std::uint32_t i = 0; i < segments_.count(); ++i) {
    erasures.insert(erasures.end(), segments_[i].erasures.begin(), segments_[i].erasures.end());
  }
  apply_erasures(erasures);
  take_pins();
  generation_ += generations_an_opening;
  write_superblocks();
  // A crash, or a path that was away, has left the key of what was erased on flash.
  if (sealer_ == nullptr) return {};
  Lock lock(mutex_);
  for (const NamespaceId slot : std::exchange(old_slots_, {})) {
    for (int copy = 0; copy < 2; ++copy) {
      const auto written = write_slot(lock, slot);
      if (!written && settings_.report) {
        settings_.report(written.error().message + "; the key of an erased namespace may still be there");
      }
    }
  }
  return {};
}

Status Engine::recover_path(std::size_t number) {
  Segments::Path& path = segments_.paths()[number];
  const OpenedPath opened{.file = path.file, .superblock = path.superblock};
  auto found =
      find_segments(device_, opened, sealer_.get(), [&](FoundSegment& segment) { take_found(number, segment); });
  if (!found) return found;
  // Of the tails the last one of each class goes on; nothing good lies behind its end.
  for (std::uint32_t i = path.first; i < path.first + path.superblock.segments; ++i) {
    Segment& segment = segments_[i];
    if (segment.state != Segment::State::open) continue;
    const std::uint8_t lifetime = std::min<std::uint8_t>(segment.lifetime, path.lifetimes - 1);
    auto& open = path.open[lifetime];
    std::uint32_t older = i;
    if (!open || segments_[*open].sequence < segment.sequence) {
      if (open) older = *open;
      const bool first = !open;
      open = i;
      if (first) continue;
    }
    segments_[older].state = Segment::State::sealing;
    segments_.closed.push_back(older);
  }
  return {};
}

void Engine::take_found(std::size_t number, FoundSegment& found) {
  Segments::Path& path = segments_.paths()[number];
  Segment& segment = segments_[path.first + found.header.segment];
  segment.state = found.sealed ? Segment::State::sealed : Segment::State::open;
  segment.lifetime = found.header.lifetime;
  segment.sequence = found.header.sequence;
  segment.next_page = found.end_page;
  segment.generation_max = found.generation_max;
  segment.erasures = std::move(found.erasures);
  segments_.note_on_flash(segment.sequence);
  --path.free;
  generation_ = std::max(generation_, found.generation_max);
  stats_.records_skipped += found.broken;
  for (const IndexEntry& entry : found.entries) {
    if (entry.kind == RecordKind::block) take_entry(path.first + found.header.segment, entry);
  }
  if (!found.sealed) {
    segment.entries = std::move(found.entries);
    segment.entries_placed = static_cast<std::uint32_t>(segment.entries.size());
  }
}

void Engine::take_entry(std::uint32_t number, const IndexEntry& entry) {
  const BlockLocation location{.segment = number,
                               .page = entry.page,
                               .pages = entry.pages,
                               .header_pages = entry.header_pages,
                               .lifetime = std::min<std::uint8_t>(entry.lifetime, lifetimes_limit - 1),
                               .coded = entry.codec != 0};
  if (const auto have = index_.find(entry.key)) {
    const std::uint64_t other = generation_on_flash(entry.key, have->location);
    const std::uint64_t sequence = segments_[have->location.segment].sequence;
    const bool newer = entry.generation > other;
    const bool copy = entry.generation == other && segments_[number].sequence > sequence;  // carried forward
    if (!newer && !copy) return;
    forget(entry.key, have->location);
  }
  if (index_.insert(entry.key, entry.parent, {.location = location})) segments_[number].live_pages += entry.pages;
}

// Of the good record there; 0 if there is none.
std::uint64_t Engine::generation_on_flash(const KeyHash& key, const BlockLocation& location) {
  BlockingIo io(device_);
  const auto memory = buffers_.take_small(location.header_pages * store_page);
  const Segments::Path& path = segments_.path_of(location.segment);
  if (!memory || !io.read(path.file, segments_.offset(location.segment, location.page), memory.span())) return 0;
  const auto record = record_at(memory.span(), {key, {.location = location}}, segments_[location.segment].sequence);
  return record ? record->generation : 0;
}

void Engine::apply_erasures(const std::vector<Erasure>& erasures) {
  for (const Erasure& erasure : erasures) {
    const auto entry = index_.find(erasure.key);
    if (entry && generation_on_flash(erasure.key, entry->location) <= erasure.generation) {
      forget(erasure.key, entry->location);
    }
  }
}

KeyHash Engine::hash(const Namespace& ns, std::span<const std::byte> key) const {
  return hash_key(secret_, ns.slot.digest, ns.slot.epoch, key);
}

// The block is not in the index any more, if it was there.
void Engine::forget(const KeyHash& key, const BlockLocation& location) {
  if (index_.erase_at(key, location)) segments_[location.segment].live_pages -= location.pages;
}

// A page of the namespace table.
struct Engine::PageOp final : Engine::Op {
  PageOp() { request.op = IoOp::write; }
  bool prepare(Engine&) override {
    request.buffer = buffer.span();
    return true;
  }
  bool finish(Engine&) override {
    done(status.has_value());
    return true;
  }
  void give_up(Engine&, Outcome) override { done(false); }

  std::function<void(bool)> done;
};

// Durable on every path when it returns well.
Status Engine::write_table(Lock& lock, std::span<const TablePage> pages, std::string_view what) {
  std::vector<std::unique_ptr<PageOp>> ops;
  for (const TablePage& page : pages) {
    std::optional<Seal> seal;
    if (sealer_ != nullptr) {
      auto next = sealer_->next(page.scope);
      if (!next) return fail(std::move(next.error()));
      seal = std::move(*next);
    }
    for (const Segments::Path& path : segments_.paths()) {
      auto& op = ops.emplace_back(std::make_unique<PageOp>());
      op->buffer = buffers_.take_small(store_page);
      if (!op->buffer || !page.encode(op->buffer.span(), seal ? &*seal : nullptr)) {
        return fail(Code::rejected, "there is no memory for a page of {}", what);
      }
      op->request.file = path.file;
      op->request.offset = page.offset;
    }
  }
  std::size_t left = ops.size();
  bool well = true;
  for (auto& op : ops) {
    op->done = [&](bool good) {
      --left;
      well = well && good;
    };
    queue(IoClass::write, std::move(op), true);
  }
  start_queued();
  drive_until(lock, [&] { return left == 0; });
  if (!well) return fail(Code::device_failed, "{} cannot be written on every path", what);
  std::optional<bool> flushed;
  flush_paths([&](bool good) { flushed = good; });
  start_queued();
  drive_until(lock, [&] { return flushed.has_value(); });
  if (!*flushed) return fail(Code::device_failed, "the device cannot make {} durable", what);
  return {};
}

Status Engine::write_slot(Lock& lock, NamespaceId id) {
  NamespaceSlot& slot = namespaces_[id].slot;
  ++slot.revision;
  const TablePage page{.offset = namespace_slot_offset(id, slot.revision % 2),
                       .scope = scope_table,
                       .encode = [&](std::span<std::byte> to, const Seal* seal) {
                         return encode_namespace_slot(slot, store_, to, seal);
                       }};
  return write_table(lock, std::span(&page, 1), "the namespace table");
}

Result<NamespaceId> Engine::open_namespace(const NamespaceFields& fields) {
  if (fields.weights.empty()) {
    return fail(Code::invalid, "a namespace needs a fingerprint of the weights: KV of other weights would be wrong");
  }
  const auto digest = namespace_digest(fields);
  if (!digest) return fail(digest.error());
  const CodecInfo* codec = find_codec(fields.codec.empty() ? "none" : fields.codec);
  if (codec == nullptr) return fail(Code::invalid, "'{}' is no codec of a store's", fields.codec);
  const auto policy = parse_kv_choice(fields.policy);
  if (!policy) return fail(policy.error());
  const nlohmann::json text{{"model", fields.model},     {"weights", fields.weights},
                            {"dtype", fields.dtype},     {"layout", fields.layout},
                            {"rank", fields.rank},       {"block_tokens", fields.block_tokens},
                            {"adapter", fields.adapter}, {"world_size", fields.world_size}};
  std::string line = text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (line.size() > namespace_text_limit) {
    return fail(Code::invalid, "the fields of a namespace have {} bytes, at most {}", line.size(),
                namespace_text_limit);
  }
  const Namespace way{.codec = codec->id, .type = element_type(fields.dtype), .block_tokens = fields.block_tokens};
  return use_namespace(*digest, std::move(line), way, *policy);
}

Result<NamespaceId> Engine::adopt_namespace(const NamespaceDigest& digest, const std::string& text) {
  const auto policy = parse_kv_choice("first-sight+clock");
  if (!policy) return fail(policy.error());
  if (text.size() > namespace_text_limit)
    return fail(Code::invalid, "the text of a namespace has {} bytes", text.size());
  return use_namespace(digest, text, {}, *policy);
}

NamespaceDigest Engine::digest_of(NamespaceId id) const {
  const Lock lock(mutex_);
  return namespaces_[id].slot.digest;
}

// The namespace of that digest, made if it is not there; its blocks are put in that way from now on.
Result<NamespaceId> Engine::use_namespace(const NamespaceDigest& digest, std::string text, const Namespace& way,
                                          const KvChoice& policy) {
  Lock lock(mutex_);
  const auto same = [&](const Namespace& ns) { return ns.slot.epoch != 0 && ns.slot.digest == digest; };
  auto place = std::ranges::find_if(namespaces_, same);
  const auto use = [&] {
    const auto id = static_cast<NamespaceId>(place - namespaces_.begin());
    place->used = true;
    place->codec = way.codec;
    place->type = way.type;
    place->block_tokens = way.block_tokens;
    policies_.choose(id, policy);
    return id;
  };
  if (place != namespaces_.end()) return use();
  place = std::ranges::find_if(namespaces_, [](const Namespace& ns) { return ns.slot.epoch == 0; });
  if (place == namespaces_.end()) {
    return fail(Code::rejected, "the store has {} namespaces, there is no room for more", namespaces_.size());
  }
  place->slot = {.digest = digest, .text = std::move(text)};
  place->slot.revision = 0;
  const NamespaceId id = use();
  Status made = begin_epoch(id);
  if (made) made = write_slot(lock, id);
  if (made) return id;
  namespaces_[id] = {};
  return fail(std::move(made.error()));
}

std::vector<NamespaceFacts> Engine::namespaces() {
  const Lock lock(mutex_);
  std::vector<NamespaceFacts> all;
  for (NamespaceId id = 0; id < namespaces_.size(); ++id) {
    if (namespaces_[id].slot.epoch == 0) continue;
    namespaces_[id].used = true;
    all.push_back({.id = id, .text = namespaces_[id].slot.text});
  }
  return all;
}

Status Engine::erase_namespace(NamespaceId id) {
  Lock lock(mutex_);
  assert(id < namespaces_.size() && namespaces_[id].used);
  if (auto begun = begin_epoch(id); !begun) return begun;
  const auto pins = drop_pins(id);
  auto written = write_slot(lock, id);
  if (written && sealer_ != nullptr) written = write_slot(lock, id);  // over the other copy, which has the key
  if (written && !pins.empty()) written = write_pins(lock, pins);
  return written;
}

SealScope Engine::scope_of(NamespaceId id) const {
  return {.slot = static_cast<std::uint16_t>(id), .epoch = namespaces_[id].slot.epoch};
}

// From here on no older block of the namespace is found, in memory neither, and none that is sealed can be read.
Status Engine::begin_epoch(NamespaceId id) {
  NamespaceSlot& slot = namespaces_[id].slot;
  const std::uint64_t epoch = generation_ + 1;
  if (sealer_ != nullptr) {
    auto key = sealer_->new_namespace_key(epoch);
    if (!key) return fail(std::move(key.error()));
    slot.key = *key;
    sealer_->use_namespace({.slot = static_cast<std::uint16_t>(id), .epoch = epoch}, *key);
  }
  slot.epoch = generation_ = epoch;
  return {};
}

// Somebody wants the block; where it lies in memory, too, what is on flash earns it. Where that is.
std::optional<BlockEntry> Engine::touch(const Namespace& ns, const KeyHash& key) {
  const auto entry = index_.find(key);
  if (!entry) return entry;
  const KvFacts facts{.key = key, .pages = entry->location.pages};
  index_.set_policy(
      key, policies_.on_hit(static_cast<NamespaceId>(&ns - namespaces_.data()), facts, entry->policy, clock_.now()));
  return entry;
}

void Engine::expect(NamespaceId id, std::span<const std::span<const std::byte>> keys, Outlook outlook) {
  const Lock lock(mutex_);
  assert(id < namespaces_.size() && namespaces_[id].used);
  for (const auto& name : keys) {
    if (!is_key(name)) continue;
    const KeyHash key = hash(namespaces_[id], name);
    const auto entry = index_.find(key);
    if (!entry || outlook == Outlook::unknown) continue;
    const KvFacts facts{.key = key, .pages = entry->location.pages};
    const bool wanted = outlook == Outlook::awaited;
    index_.set_policy(key, policies_.on_outlook(id, facts, entry->policy, wanted, clock_.now()));
    if (!wanted) memory_.erase(key);
  }
}

// Whether a get would find it, as far as memory knows.
bool Engine::has(const KeyHash& key) const {
  return index_.find(key).has_value() || memory_.contains(key);
}

void Engine::exists(NamespaceId id, std::span<Probe> items) {
  const Lock lock(mutex_);
  assert(id < namespaces_.size() && namespaces_[id].used);
  for (Probe& item : items) {
    item.outcome = Outcome::invalid;
    if (!is_key(item.key)) continue;
    item.outcome = has(hash(namespaces_[id], item.key)) ? Outcome::hit : Outcome::miss;
  }
}

void Engine::erase(NamespaceId id, std::span<Probe> items) {
  const Lock lock(mutex_);
  assert(id < namespaces_.size() && namespaces_[id].used);
  for (Probe& item : items) {
    if (!is_key(item.key)) {
      item.outcome = Outcome::invalid;
    } else {
      erase_one(hash(namespaces_[id], item.key), item);
    }
  }
}

void Engine::erase_one(const KeyHash& key, Probe& item) {
  item.outcome = has(key) ? Outcome::hit : Outcome::miss;
  memory_.erase(key);
  const auto entry = index_.find(key);
  if (!entry) return;
  forget(key, entry->location);
  note_erasure({key, ++generation_, segments_[entry->location.segment].sequence});
  ++stats_.erased;
}

std::size_t Engine::longest_prefix(NamespaceId id, std::span<const std::span<const std::byte>> keys) {
  const Lock lock(mutex_);
  assert(id < namespaces_.size() && namespaces_[id].used);
  const Namespace& ns = namespaces_[id];
  std::vector<KvFacts> prompt;
  std::optional<std::size_t> length;
  for (const auto key : keys) {
    if (!is_key(key)) break;
    const bool first = prompt.empty();
    prompt.push_back({.key = hash(ns, key),
                      .parent = first ? KeyHash{} : prompt.back().key,
                      .position = static_cast<std::uint32_t>(prompt.size()),
                      .parent_stored = !length});
    if (!length && !has(prompt.back().key)) length = prompt.size() - 1;
  }
  policies_.on_prompt(id, prompt, clock_.now());
  for (const KvFacts& block : prompt) touch(ns, block.key);
  return length.value_or(prompt.size());
}

void Engine::count_frame(std::uint64_t bytes) {
  stats_.bytes_written += bytes;
  policies_.budget().spend(bytes, clock_.now());
}

StoreStats Engine::stats() const {
  const Lock lock(mutex_);
  StoreStats stats = stats_;
  stats.blocks = index_.size();
  for (const Segments::Path& path : segments_.paths()) {
    stats.capacity_bytes += path.superblock.file_bytes();
    stats.segments += path.superblock.segments;
    stats.segments_free += path.free;
    ++stats.paths;
    if (path.failed) ++stats.paths_failed;
  }
  for (std::uint32_t i = 0; i < segments_.count(); ++i) stats.live_bytes += segments_[i].live_pages * store_page;
  const Superblock& superblock = segments_.paths().front().superblock;
  stats.write_bytes_per_day = superblock.write_bytes_per_day;
  stats.written_ever = written_ever();
  if (superblock.made_ms != 0 && settings_.unix_ms >= superblock.made_ms) {
    stats.age = std::chrono::milliseconds(settings_.unix_ms - superblock.made_ms) + (clock_.now() - opened_);
  }
  stats.pinned = pins_.size();
  stats.read_us_p50 = reads_.within_us(0.5);
  stats.read_us_p99 = reads_.within_us(0.99);
  stats.write_us_p50 = writes_.within_us(0.5);
  stats.write_us_p99 = writes_.within_us(0.99);
  stats.index_bytes = index_.bytes();
  stats.memory_bytes = memory_.bytes();
  stats.buffer_bytes = buffers_.bytes();
  return stats;
}

}  // namespace artesian
