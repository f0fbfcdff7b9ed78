// What a drive does inside: reads and programs of its dies, collection, folding, levelling, erases, the map's own
// pages, loss of power, and its books.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <optional>
#include <utility>

#include "nand/closed_form.h"
#include "nand/drive.h"

namespace artesian::nand {
namespace {

constexpr std::size_t collection_job = 0, fold_job = 1, levelling_job = 2;
constexpr std::uint64_t levelling_interval = 64;  // of a drive's superblocks are erased between two looks at their wear

}  // namespace

void Drive::read_page(std::uint32_t pua, std::uint32_t bytes, Purpose purpose, std::size_t level, std::uint32_t owner,
                      std::uint32_t place, std::uint32_t count) {
  const Superblock& block = ftl_.superblock(layout_.superblock_of(pua));
  const Place where = layout_.place_of(pua, block.mode);
  Time sense = where.read_ns;
  if (profile_.retries_worn > 0 || profile_.retries_fresh > 0) {
    const double wear = wear_ + static_cast<double>(block.wear);
    const double expected = profile_.retries_fresh +
                            (profile_.retries_worn - profile_.retries_fresh) * std::pow(wear, profile_.retry_exponent) +
                            profile_.retries_per_month * age_months_ * wear;
    double retries = std::floor(expected);
    if (random_.unit() < expected - retries) ++retries;
    counters_.retries += static_cast<std::uint64_t>(retries);
    sense += static_cast<Time>(retries) * where.read_ns;
  }
  ++counters_.flash_ops[static_cast<std::size_t>(purpose)];
  const auto moved_bytes = static_cast<std::uint32_t>(std::lround(bytes * parity_));
  counters_.moved_bytes += moved_bytes;
  flash_.add({.duration = sense,
              .die = where.die,
              .bytes = moved_bytes,
              .owner = owner,
              .place = place,
              .count = count,
              .lane = static_cast<std::uint8_t>(where.lane),
              .level = static_cast<std::uint8_t>(level),
              .kind = OpKind::read,
              .purpose = purpose},
             now_);
}

void Drive::program(const Appended& filled, std::uint32_t host_grains, std::size_t level) {
  const ModeLayout& mode = layout_.mode(ftl_.mode_of(filled.pua));
  const auto bytes = static_cast<std::uint32_t>(std::lround(static_cast<double>(profile_.page_bytes) * parity_));
  ++counters_.flash_ops[static_cast<std::size_t>(Purpose::program)];
  counters_.moved_bytes += std::uint64_t{bytes} * mode.pages_per_program;
  flash_.add({.duration = mode.program_ns,
              .die = filled.program % layout_.programs % layout_.dies,
              .bytes = bytes,
              .pages = mode.pages_per_program,
              .owner = filled.program,
              .place = mode.pages_per_program,
              .count = host_grains,
              .level = static_cast<std::uint8_t>(level),
              .kind = OpKind::program,
              .purpose = Purpose::program},
             now_);
}

// Appends a unit and sends to flash what that fills. Nothing if there is no place.
std::optional<Appended> Drive::put(std::uint32_t frontier, std::uint32_t lpn, Stream stream, std::uint32_t grains,
                                   std::size_t level) {
  const Appended fitted = ftl_.make_fit(frontier, grains);
  if (fitted.filled) program(fitted, take_buffered(frontier, fitted.program), level);
  if (!ftl_.can_append(frontier)) return std::nullopt;
  const Appended placed = ftl_.append(frontier, lpn, stream, grains);
  if (stream == Stream::host) {
    buffered_ += grains;
    ftl_.frontier(frontier).buffered[placed.program % layout_.stripe] += grains;
  }
  if (placed.filled) program(placed, take_buffered(frontier, placed.program), level);
  return placed;
}

std::uint32_t Drive::take_buffered(std::uint32_t frontier, std::uint32_t program) {
  return std::exchange(ftl_.frontier(frontier).buffered[program % layout_.stripe], 0);
}

// Program units that were begun by `order` are filled up with nothing and go to flash.
void Drive::pad_begun(std::uint64_t order, std::size_t frontiers) {
  for (std::uint32_t index = 0; index < frontiers; ++index) {
    const Frontier& frontier = ftl_.frontier(index);
    if (frontier.first_order == 0 || frontier.first_order > order) continue;
    for (const Appended& filled : ftl_.pad(index)) {
      program(filled, take_buffered(index, filled.program), static_cast<std::size_t>(IoClass::write));
    }
  }
}

bool Drive::host_blocked() const {
  return !writes_.empty() && !ftl_.can_append(ftl_.host_frontier(handle_of(requests_[writes_.front()].host)));
}

std::size_t Drive::background_level() const {
  return static_cast<std::size_t>(host_blocked() ? IoClass::write : IoClass::reclaim);
}

void Drive::pump_collection() {
  if (pumping_) return;
  pumping_ = true;
  // All of them, not the first alone: what waits for one frontier must not hold up another that has room.
  if (!stalled_.empty()) {
    std::vector<Stalled> waiting = std::exchange(stalled_, {});  // what is moved may push out pages of the map
    std::erase_if(waiting, [this](const Stalled& one) {
      if (!move_unit(one.job, one.pua)) return false;
      if (one.job != none) --jobs_[one.job].reading;
      return true;
    });
    stalled_.insert(stalled_.begin(), waiting.begin(), waiting.end());
  }
  for (std::size_t job = 0; job < job_count; ++job) {
    while (jobs_[job].victim != none || begin(job)) {
      advance(job);
      if (jobs_[job].victim != none) break;  // waits for its reads
    }
  }
  begin_erases();
  pumping_ = false;
  const bool stuck = (host_blocked() || !stalled_.empty()) && erasing_.empty() && flash_.outstanding() == 0;
  if (!stuck || ftl_.worn_out()) return;
  ftl_.wear_out();  // blocks were retired faster than space was won
  pump_writes();
}

bool Drive::begin(std::size_t job) {
  if (ftl_.worn_out()) return false;  // there is nothing to win any more
  std::optional<std::uint32_t> victim;
  Stream stream = Stream::collection;
  if (job == collection_job) {
    if (ftl_.needs_collection(erasing_.size())) victim = ftl_.take_victim();
  } else if (job == fold_job) {
    // By heat, half of the fast medium stays with what is used often.
    const std::uint64_t stays = heat_.any() ? profile_.pslc_superblocks / 2 : 0;
    const bool spare_time = in_flight_ == 0 && ftl_.pslc_in_use() > stays;
    if (ftl_.needs_fold() || spare_time) victim = ftl_.take_fold_victim();
    stream = Stream::fold;
  } else if (ftl_.free_superblocks() >= ftl_.reserve() &&
             ftl_.erases() - levelled_at_ >= std::max<std::uint64_t>(layout_.superblocks / levelling_interval, 1)) {
    levelled_at_ = ftl_.erases();
    victim = ftl_.take_cold_victim();
    stream = Stream::levelling;
  }
  if (!victim) return false;
  const std::uint32_t first = *victim * layout_.native.grains;
  jobs_[job] = {.victim = *victim, .next = first, .end = first + ftl_.superblock(*victim).written, .stream = stream};
  return true;
}

// Reads on, as far as the copies in flight allow; hands the superblock over to be erased when all of it is moved.
void Drive::advance(std::size_t index) {
  Job& job = jobs_[index];
  const std::uint32_t reading_max = 2 * layout_.dies;
  while (job.next < job.end && job.reading < reading_max) {
    if (!ftl_.valid(job.next)) {
      job.next = ftl_.superblock(job.victim).valid == 0 ? job.end : job.next + 1;
      continue;
    }
    move_page(static_cast<std::uint32_t>(index), job.next);
    job.next = std::min(job.end, (job.next / layout_.grains_per_page + 1) * layout_.grains_per_page);
  }
  if (job.next < job.end || job.reading > 0) return;
  erasing_.push_back({.superblock = job.victim});
  job = {};
}

void Drive::move_page(std::uint32_t job, std::uint32_t first) {
  const std::uint32_t end = std::min(jobs_[job].end, (first / layout_.grains_per_page + 1) * layout_.grains_per_page);
  std::uint32_t valid = 0;
  for (std::uint32_t pua = first; pua < end; ++pua) valid += ftl_.valid(pua) ? ftl_.length(pua) : 0;
  ++jobs_[job].reading;
  read_page(first, valid * layout_.grain_bytes, Purpose::copy, background_level(), job, first, end - first);
}

// Where a unit that is moved goes. What is folded and was used often stays in the fast medium: three quarters of a
// superblock at most, so that folding wins space.
std::uint32_t Drive::frontier_of(std::uint32_t job, std::uint32_t pua) {
  const Stream stream = jobs_[job].stream;
  if (stream == Stream::levelling) return ftl_.levelling_frontier();
  const bool hot = stream == Stream::fold && heat_.of(ftl_.owner(pua)) >= Heat::stays;
  if (hot && jobs_[job].kept + ftl_.length(pua) <= layout_.slc.grains / 4 * 3) return ftl_.tier_frontier();
  return ftl_.collection_frontier(ftl_.superblock(layout_.superblock_of(pua)).handle);
}

// False if there is no place for it now. What has become stale since it was read needs none.
bool Drive::move_unit(std::uint32_t job, std::uint32_t pua) {
  if (job == none) {  // a page of the map, by its lpn
    return put(ftl_.map_frontier(), pua, Stream::metadata, layout_.grains_per_unit, background_level()).has_value();
  }
  if (!ftl_.valid(pua)) return true;
  const std::uint32_t lpn = ftl_.owner(pua), grains = ftl_.length(pua);
  const std::uint32_t frontier = frontier_of(job, pua);
  const auto placed = put(frontier, lpn, jobs_[job].stream, grains, background_level());
  if (!placed) return false;
  if (content_) content_->copy(pua, placed->pua);
  if (heat_.any() && frontier == ftl_.tier_frontier()) {
    jobs_[job].kept += grains;
    ++counters_.kept_units;
    heat_.cool(lpn);
  }
  touch_map(lpn);
  return true;
}

// What is read again and again is programmed once more, in one-bit mode, while it is in the controller anyway.
void Drive::promote(std::uint32_t lpn) {
  if (heat_.of(lpn) < Heat::promotes) return;
  const std::uint32_t pua = ftl_.lookup(lpn);
  if (pua == none || !ftl_.programmed(pua) || ftl_.mode_of(pua) == CellMode::slc) return;
  const std::uint32_t tier = ftl_.tier_frontier();
  const bool room = ftl_.pslc_in_use() < profile_.pslc_superblocks && ftl_.free_superblocks() > ftl_.reserve();
  if (ftl_.frontier(tier).superblock == none && !room) return;
  const auto placed = put(tier, lpn, Stream::fold, ftl_.length(pua), static_cast<std::size_t>(IoClass::reclaim));
  if (!placed) return;
  if (content_) content_->copy(pua, placed->pua);
  ++counters_.promoted_units;
  touch_map(lpn);
}

// A superblock is erased when what replaced its units is on flash: without power-loss protection, what was flushed must
// survive at any moment. Where space is short and no copy is under way that would fill them, program units are padded
// that it waits for.
void Drive::begin_erases() {
  std::uint64_t wanted = 0;
  for (Erasing& one : erasing_) {
    if (one.left > 0) continue;
    const std::uint64_t superseded = ftl_.superblock(one.superblock).superseded_order;
    if (profile_.power_loss_protection || superseded < ftl_.oldest_unprogrammed()) {
      erase(one);
    } else {
      wanted = std::max(wanted, superseded);
    }
  }
  if (wanted == 0 || (!host_blocked() && ftl_.free_superblocks() > 0)) return;
  std::size_t reading = 0;
  for (const Job& job : jobs_) reading += job.reading;
  for (const Stalled& one : stalled_) reading -= one.job != none ? 1 : 0;
  if (reading == 0) pad_begun(wanted, ftl_.frontier_count());
}

void Drive::erase(Erasing& one) {
  ftl_.start_erase(one.superblock);
  one.left = layout_.dies;
  const ModeLayout& mode = layout_.mode(ftl_.superblock(one.superblock).mode);
  const auto level = static_cast<std::uint8_t>(background_level());
  counters_.flash_ops[static_cast<std::size_t>(Purpose::erase)] += layout_.dies;
  for (std::uint32_t die = 0; die < layout_.dies; ++die) {
    flash_.add({.duration = mode.erase_ns,
                .die = die,
                .owner = one.superblock,
                .level = level,
                .kind = OpKind::erase,
                .purpose = Purpose::erase},
               now_);
  }
}

// The map's entry of a unit changes.
void Drive::touch_map(std::uint32_t lpn) {
  look_up_map(lpn, true, IoClass::write);
}

// Nobody waits for it.
void Drive::look_up_map(std::uint32_t lpn, bool changes, IoClass io_class) {
  if (map_cache_.whole() || lpn >= layout_.logical_units) return;
  const std::uint32_t page = lpn / layout_.entries_per_map_page;
  const auto touched = map_cache_.touch(page, changes);
  const std::uint32_t place = ftl_.lookup(layout_.logical_units + page);
  if (!touched.hit && place != none && ftl_.programmed(place)) {
    ++counters_.map_misses;
    read_page(place, layout_.unit_bytes, Purpose::merge, static_cast<std::size_t>(io_class), 0, 0, 0);
  }
  evict_map_page(touched);
}

void Drive::evict_map_page(const MapCache::Touched& touched) {
  if (!touched.evicted_dirty) return;
  const std::uint32_t lpn = layout_.logical_units + touched.evicted;
  if (!move_unit(none, lpn)) stalled_.push_back({lpn, none});
}

void Drive::moved(const FlashOp& op, Time /*now*/) {
  switch (op.purpose) {
    case Purpose::host:
      deliver(op.owner, clipped(requests_[op.owner].host, op.place, op.count));
      if (read_cache_.any() || heat_.any()) keep_near(op, requests_[op.owner].host.partition);
      if (--requests_[op.owner].pending == 0) settle(op.owner);
      return;
    case Purpose::prefetch:
      return announced(op);
    case Purpose::map:
      launch_reads(op.owner, op.place, op.count);
      if (--requests_[op.owner].pending == 0) settle(op.owner);
      return;
    case Purpose::copy: {
      for (std::uint32_t pua = op.place; pua < op.place + op.count; ++pua) {
        if (move_unit(op.owner, pua)) continue;
        if (!ftl_.valid(pua)) continue;
        stalled_.push_back({pua, op.owner});
        ++jobs_[op.owner].reading;
      }
      --jobs_[op.owner].reading;
      return pump_collection();
    }
    case Purpose::merge:
    case Purpose::program:
    case Purpose::erase:
      return;
  }
}

// Units that have been read: to be had sooner the next time.
void Drive::keep_near(const FlashOp& op, std::uint32_t partition) {
  for (std::uint32_t unit = op.place; unit < op.place + op.count; ++unit) {
    const std::uint32_t pua = ftl_.lookup(unit);
    if (pua == none || !ftl_.programmed(pua)) continue;  // written since
    read_cache_.insert(unit, partition);
    promote(unit);
  }
}

void Drive::announced(const FlashOp& op) {
  keep_near(op, op.owner);
  for (std::uint32_t unit = op.place; unit < op.place + op.count; ++unit) {
    const auto found = coming_.extract(unit);
    if (found.empty()) continue;
    for (const std::uint32_t index : found.mapped()) {
      deliver(index, clipped(requests_[index].host, unit, 1));
      if (--requests_[index].pending == 0) settle(index);
    }
  }
}

void Drive::finished(const FlashOp& op, Time now) {
  if (op.kind == OpKind::program) {
    ftl_.program_done(op.owner, now);
    counters_.media_written_bytes += op.place * profile_.page_bytes;
    buffered_ -= op.count;
    finish_flushes();
  } else {
    const auto found = std::ranges::find(erasing_, op.owner, &Erasing::superblock);
    assert(found != erasing_.end());
    if (--found->left > 0) return;
    erasing_.erase(found);
    counters_.media_erased_bytes += std::uint64_t{ftl_.superblock(op.owner).written} * layout_.grain_bytes;
    ftl_.finish_erase(op.owner);
    if (content_) content_->erase(op.owner);
  }
  pump_writes();
  pump_collection();
}

void Drive::fill(std::uint64_t first, std::uint64_t count, std::uint32_t handle) {
  for (std::uint64_t lpn = first; lpn < first + count; ++lpn) {
    ftl_.write_now(handle, static_cast<std::uint32_t>(lpn), compressed_length(fill_compress_));
  }
  fill_map(first, count);
}

void Drive::fill_native(std::uint64_t count) {
  for (std::uint64_t lpn = 0; lpn < count; ++lpn) {
    ftl_.append_now(ftl_.collection_frontier(0), static_cast<std::uint32_t>(lpn), Stream::host,
                    layout_.grains_per_unit);
  }
  fill_map(0, count);
}

void Drive::fill_map(std::uint64_t first, std::uint64_t count) {
  if (map_cache_.whole()) return;
  const std::uint64_t per_page = layout_.entries_per_map_page;
  for (std::uint64_t page = first / per_page; page * per_page < first + count; ++page) {
    ftl_.write_now(0, static_cast<std::uint32_t>(layout_.logical_units + page), layout_.grains_per_unit);
  }
}

void Drive::preload(std::uint64_t offset, std::span<const std::byte> bytes, double compress) {
  const double before = std::exchange(fill_compress_, compress);
  const std::uint64_t first = offset / layout_.unit_bytes;
  const std::uint64_t end = (offset + bytes.size() + layout_.unit_bytes - 1) / layout_.unit_bytes;
  const HostRequest host{.offset = offset, .bytes = bytes.size(), .data = const_cast<std::byte*>(bytes.data())};
  for (std::uint64_t unit = first; unit < end; ++unit) {
    const auto lpn = static_cast<std::uint32_t>(unit);
    const bool part = content_ && clipped(host, lpn, 1) < layout_.unit_bytes;
    if (part) {
      merged_.assign(layout_.unit_bytes, std::byte{0});  // a place that is erased while this one is written is gone
      if (const std::uint32_t old = ftl_.lookup(lpn); old != none) content_->read(old, 0, merged_);
    }
    fill(unit, 1);
    if (!content_) continue;
    const std::uint32_t now = ftl_.lookup(lpn);
    if (part) content_->write(now, merged_);
    store(host, lpn, now, now);
  }
  fill_compress_ = before;
}

void Drive::overwrite_at_random(std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    ftl_.write_now(0, static_cast<std::uint32_t>(random_.below(layout_.logical_units)),
                   compressed_length(fill_compress_));
  }
}

Time Drive::cut_power() {
  assert(content_);
  events_.clear();
  flash_.clear();
  requests_.clear();
  free_requests_.clear();
  for (auto& queues : waiting_) std::ranges::fill(queues, Fifo{});
  waiting_count_ = turn_ = {};
  in_flight_ = buffered_ = 0;
  writes_.clear();
  flushes_.clear();
  completions_.clear();
  jobs_ = {};
  erasing_.clear();
  stalled_.clear();
  coming_.clear();
  read_cache_.clear();
  ftl_.rebuild(profile_.power_loss_protection);
  controller_free_ = link_in_free_ = link_out_free_ = now_;
  // The first page of every block says what it is, and every page of what was open is looked at.
  const double pages = static_cast<double>(layout_.superblocks) * layout_.planes +
                       static_cast<double>(ftl_.frontier_count() * layout_.programs) / layout_.dies;
  const Time each = layout_.native.read_ns[0] + flash_.move_time(layout_.unit_bytes);
  return static_cast<Time>(pages / layout_.lanes * static_cast<double>(each));
}

DriveCounters Drive::counters() const {
  DriveCounters counters = counters_;
  for (std::size_t i = 0; i < stream_count; ++i) {
    counters.programmed_bytes[i] = ftl_.programmed_grains()[i] * layout_.grain_bytes;
  }
  counters.suspends = flash_.suspends();
  counters.elapsed = now_ - started_;
  return counters;
}

FdpStatistics Drive::fdp() const {
  const DriveCounters c = counters();
  return {.host_written = c.host_written_bytes + c.merge_bytes,
          .media_written = c.media_written_bytes,
          .media_erased = c.media_erased_bytes};
}

EnergyReport Drive::energy() const {
  const DriveCounters c = counters();
  double reads = 0;
  for (const Purpose purpose : {Purpose::host, Purpose::map, Purpose::merge, Purpose::copy, Purpose::prefetch}) {
    reads += static_cast<double>(c.flash_ops[static_cast<std::size_t>(purpose)]);
  }
  reads += static_cast<double>(c.retries);
  const double erases = static_cast<double>(c.flash_ops[static_cast<std::size_t>(Purpose::erase)]) * layout_.planes;
  const double pages = static_cast<double>(c.media_written_bytes) / static_cast<double>(profile_.page_bytes);
  return {.read_j = reads * profile_.read_uj * 1e-6,
          .program_j = pages * profile_.program_uj * 1e-6,
          .erase_j = erases * profile_.erase_uj * 1e-6,
          .channel_j = static_cast<double>(c.moved_bytes) * profile_.channel_pj * 1e-12,
          .link_j = static_cast<double>(c.link_bytes) * profile_.link_pj * 1e-12,
          .idle_j = static_cast<double>(c.elapsed) * 1e-9 * profile_.idle_w};
}

void Drive::reset_counters() {
  counters_ = {};
  ftl_.reset_counters();
  flash_.reset_counters();
  started_ = now_;
  levelled_at_ = 0;
}

double Drive::years_of_life(double bytes_per_day) const {
  const double drive_writes = bytes_per_day / static_cast<double>(profile_.capacity_bytes);
  const double wa = counters().write_amplification();
  return drive_writes <= 0 ? INFINITY
                           : drive_writes_per_day(profile_.pe_cycles, profile_.alpha(), wa, 1) / drive_writes;
}

}  // namespace artesian::nand
