// The host side of a drive: requests, link, write buffer, completions. What goes on inside is in drive_collect.cpp.
#include "nand/drive.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <utility>

namespace artesian::nand {
namespace {

constexpr std::uint64_t fnv_prime = 1099511628211ULL;

FtlSettings settings_of(const Profile& profile, const DriveOptions& options) {
  FtlSettings settings = ftl_settings(profile);
  settings.keep_order = options.store_data;
  settings.quota = options.quota;
  settings.seed = options.seed;
  return settings;
}

}  // namespace

double DriveCounters::write_amplification() const {
  return host_written_bytes == 0 ? 1.0
                                 : static_cast<double>(appended_bytes()) / static_cast<double>(host_written_bytes);
}

std::uint64_t DriveCounters::appended_bytes() const {
  std::uint64_t sum = 0;
  for (const std::uint64_t bytes : programmed_bytes) sum += bytes;
  return sum;
}

Drive::Drive(Profile profile, DriveOptions options)
    : profile_(std::move(profile)),
      options_(std::move(options)),
      layout_(profile_),
      flash_(profile_, layout_, events_, *this),
      ftl_(layout_, settings_of(profile_, options_)),
      map_cache_(ftl_settings(profile_).map_pages,
                 static_cast<std::uint32_t>(profile_.map_cache_bytes / profile_.map_unit_bytes)),
      read_cache_(profile_),
      heat_(profile_.tiering == Tiering::heat ? layout_.logical_units : 0),
      random_(options_.seed ^ 0xD1B54A32D192ED03ULL),
      lengths_(options_.seed ^ 0x8CB92BA72F3D8DD7ULL),
      submit_ns_(from_us(profile_.submit_us)),
      complete_ns_(from_us(profile_.complete_us)),
      command_ns_(std::llround(1e9 / profile_.iops_max)),
      read_ns_(from_us(profile_.read_us_controller)),
      write_ns_(from_us(profile_.write_us_controller + profile_.compress_us)),
      ecc_ns_(from_us(profile_.ecc_us)),
      decompress_ns_(from_us(profile_.decompress_us)),
      link_ns_per_byte_(1e3 / profile_.link_mb),
      parity_(1 + profile_.parity_share),
      buffer_grains_(static_cast<std::uint32_t>(profile_.buffer_bytes / profile_.grain_bytes())) {
  for (auto& queues : waiting_) queues.resize(profile_.queues);
  if (!options_.store_data) return;
  content_.emplace(layout_);
  ftl_.on_move = [this](std::uint32_t from, std::uint32_t to) { content_->copy(from, to); };
}

std::uint32_t Drive::handle_of(const HostRequest& host) const {
  return host.handle < profile_.placement_handles ? host.handle : 0;
}

std::uint32_t Drive::new_request(const HostRequest& host) {
  const Request request{.host = host, .submitted = now_};
  if (free_requests_.empty()) {
    requests_.push_back(request);
    return static_cast<std::uint32_t>(requests_.size() - 1);
  }
  const std::uint32_t index = free_requests_.back();
  free_requests_.pop_back();
  requests_[index] = request;
  return index;
}

void Drive::submit(std::span<const HostRequest> requests) {
  for (const HostRequest& request : requests) {
    assert(request.op == HostOp::flush ||
           (request.bytes > 0 && request.offset + request.bytes <= profile_.capacity_bytes));
    const std::uint32_t index = new_request(request);
    const auto io_class = static_cast<std::size_t>(request.io_class);
    Fifo& fifo = waiting_[io_class][request.queue % profile_.queues];
    (fifo.head == none ? fifo.head : requests_[fifo.tail].next) = index;
    fifo.tail = index;
    ++waiting_count_[io_class];
  }
  dispatch();
}

std::uint32_t Drive::waiting() const {
  std::uint32_t sum = 0;
  for (const std::uint32_t count : waiting_count_) sum += count;
  return sum;
}

// The earliest class first; within it the queues in turn.
std::uint32_t Drive::next_waiting() {
  for (std::size_t io_class = 0; io_class < io_class_count; ++io_class) {
    if (waiting_count_[io_class] == 0) continue;
    auto& queues = waiting_[io_class];
    std::uint32_t& turn = turn_[io_class];
    while (queues[turn].head == none) turn = turn + 1 == queues.size() ? 0 : turn + 1;
    const std::uint32_t index = queues[turn].head;
    queues[turn].head = requests_[index].next;
    turn = turn + 1 == queues.size() ? 0 : turn + 1;
    --waiting_count_[io_class];
    return index;
  }
  return none;
}

void Drive::dispatch() {
  while (in_flight_ < profile_.queue_depth) {
    const std::uint32_t index = next_waiting();
    if (index == none) return;
    ++in_flight_;
    start(index);
  }
}

void Drive::start(std::uint32_t index) {
  controller_free_ = std::max(now_ + submit_ns_, controller_free_) + command_ns_;
  const Time firmware = requests_[index].host.op == HostOp::write ? write_ns_ : read_ns_;
  events_.push(controller_free_ + firmware, EventKind::issue, index);
}

void Drive::issue(std::uint32_t index) {
  Request& request = requests_[index];
  switch (request.host.op) {
    case HostOp::read:
      return start_read(index);
    case HostOp::write:
      link_in_free_ =
          std::max(now_, link_in_free_) + std::llround(static_cast<double>(request.host.bytes) * link_ns_per_byte_);
      counters_.link_bytes += request.host.bytes;
      request.unit = static_cast<std::uint32_t>(request.host.offset / layout_.unit_bytes);
      events_.push(link_in_free_, EventKind::arrived, index);
      return;
    case HostOp::prefetch:
      request.finish = now_;
      prefetch(request.host);
      return settle(index);
    case HostOp::flush:
      request.finish = now_;
      if (profile_.power_loss_protection) return settle(index);
      pad_begun(ftl_.order(), profile_.placement_handles);
      flushes_.push_back({index, ftl_.order()});
      return finish_flushes();
  }
}

void Drive::finish_flushes() {
  if (flushes_.empty()) return;
  const std::uint64_t oldest = ftl_.oldest_unprogrammed(true);
  std::erase_if(flushes_, [&](const Flushing& flush) {
    if (flush.order >= oldest) return false;
    requests_[flush.request].finish = now_;
    settle(flush.request);
    return true;
  });
}

// All of it is done at request.finish.
void Drive::settle(std::uint32_t index) {
  events_.push(std::max(requests_[index].finish, now_) + complete_ns_, EventKind::complete, index);
}

std::uint32_t Drive::clipped(const HostRequest& host, std::uint32_t first, std::uint32_t count) const {
  const std::uint64_t begin = std::max(host.offset, std::uint64_t{first} * layout_.unit_bytes);
  const std::uint64_t end = std::min(host.offset + host.bytes, std::uint64_t{first + count} * layout_.unit_bytes);
  return static_cast<std::uint32_t>(end - begin);
}

void Drive::start_read(std::uint32_t index) {
  const HostRequest host = requests_[index].host;
  const auto first = static_cast<std::uint32_t>(host.offset / layout_.unit_bytes);
  const auto end = static_cast<std::uint32_t>((host.offset + host.bytes - 1) / layout_.unit_bytes) + 1;
  requests_[index].pending = 1;  // until all of it is launched
  if (map_cache_.whole()) {
    launch_reads(index, first, end - first);
  } else {
    const std::uint32_t per_page = layout_.entries_per_map_page;
    for (std::uint32_t unit = first; unit < end;) {
      const std::uint32_t page = unit / per_page;
      const std::uint32_t count = std::min(end, (page + 1) * per_page) - unit;
      const auto touched = map_cache_.touch(page, false);
      evict_map_page(touched);
      const std::uint32_t place = ftl_.lookup(layout_.logical_units + page);
      if (touched.hit || place == none || !ftl_.programmed(place)) {
        launch_reads(index, unit, count);
      } else {
        ++counters_.map_misses;
        ++requests_[index].pending;
        read_page(place, layout_.unit_bytes, Purpose::map, static_cast<std::size_t>(host.io_class), index, unit, count);
      }
      unit += count;
    }
  }
  if (--requests_[index].pending == 0) settle(index);
}

// Units from this one on, below `end`, that lie behind one another in one page of flash, and what must leave the die
// for all of them: a compressed unit comes whole.
std::uint32_t Drive::page_run(const HostRequest& host, std::uint32_t unit, std::uint32_t end,
                              std::uint32_t& flash_bytes) const {
  const std::uint32_t pua = ftl_.lookup(unit);
  const std::uint32_t page_end = (pua / layout_.grains_per_page + 1) * layout_.grains_per_page;
  std::uint32_t next = pua, together = 0;
  flash_bytes = 0;
  do {
    const std::uint32_t grains = ftl_.length(next);
    flash_bytes += grains == layout_.grains_per_unit ? clipped(host, unit + together, 1) : grains * layout_.grain_bytes;
    next += grains;
    ++together;
  } while (unit + together < end && next < page_end && ftl_.lookup(unit + together) == next &&
           (!read_cache_.any() || !coming_.contains(unit + together)));
  return together;
}

// Without flash: what was never written, is still in the buffer, or is in DRAM or on its way there.
bool Drive::serve_from_memory(std::uint32_t index, std::uint32_t unit, std::uint32_t pua) {
  if (pua == none || !ftl_.programmed(pua)) {
    ++(pua == none ? counters_.unmapped_reads : counters_.buffer_hits);
  } else if (!read_cache_.any()) {
    return false;
  } else if (const auto found = coming_.find(unit); found != coming_.end()) {
    ++counters_.cache_hits;
    ++requests_[index].pending;
    found->second.push_back(index);
    return true;
  } else if (read_cache_.hit(unit)) {
    ++counters_.cache_hits;
  } else {
    return false;
  }
  deliver(index, clipped(requests_[index].host, unit, 1));
  return true;
}

// Reads units of the map, those of one page together.
void Drive::launch_reads(std::uint32_t index, std::uint32_t first, std::uint32_t count) {
  const HostRequest host = requests_[index].host;
  const bool copies = content_ && host.data != nullptr;
  for (std::uint32_t unit = first; unit < first + count;) {
    const std::uint32_t pua = ftl_.lookup(unit);
    heat_.touch(unit);
    if (copies) copy_out(host, unit, pua);
    if (serve_from_memory(index, unit, pua)) {
      ++unit;
      continue;
    }
    std::uint32_t flash_bytes = 0;
    const std::uint32_t together = page_run(host, unit, first + count, flash_bytes);
    for (std::uint32_t other = unit + 1; other < unit + together; ++other) {
      heat_.touch(other);
      if (copies) copy_out(host, other, ftl_.lookup(other));
    }
    ++requests_[index].pending;
    read_page(pua, flash_bytes, Purpose::host, static_cast<std::size_t>(host.io_class), index, unit, together);
    unit += together;
  }
}

// What was announced comes into the cache when nothing more urgent is to be done.
void Drive::prefetch(const HostRequest& host) {
  if (!read_cache_.any()) return;
  const auto first = static_cast<std::uint32_t>(host.offset / layout_.unit_bytes);
  const auto end = static_cast<std::uint32_t>((host.offset + host.bytes - 1) / layout_.unit_bytes) + 1;
  for (std::uint32_t unit = first; unit < end;) {
    look_up_map(unit, false, IoClass::staged);
    const std::uint32_t pua = ftl_.lookup(unit);
    if (pua == none || !ftl_.programmed(pua) || coming_.contains(unit) || read_cache_.hit(unit)) {
      ++unit;
      continue;
    }
    std::uint32_t flash_bytes = 0;
    const std::uint32_t together = page_run(host, unit, end, flash_bytes);
    for (std::uint32_t other = unit; other < unit + together; ++other) coming_[other];
    read_page(pua, flash_bytes, Purpose::prefetch, static_cast<std::size_t>(IoClass::staged), host.partition, unit,
              together);
    unit += together;
  }
}

void Drive::copy_out(const HostRequest& host, std::uint32_t lpn, std::uint32_t pua) const {
  const std::uint64_t unit_begin = std::uint64_t{lpn} * layout_.unit_bytes;
  const std::uint64_t begin = std::max(host.offset, unit_begin);
  const std::span<std::byte> to(host.data + (begin - host.offset), clipped(host, lpn, 1));
  if (pua == none) {
    std::ranges::fill(to, std::byte{0});
  } else {
    content_->read(pua, begin - unit_begin, to);
  }
}

void Drive::deliver(std::uint32_t index, std::uint32_t bytes) {
  link_out_free_ = std::max(now_ + ecc_ns_ + decompress_ns_, link_out_free_) +
                   std::llround(static_cast<double>(bytes) * link_ns_per_byte_);
  counters_.link_bytes += bytes;
  requests_[index].finish = std::max(requests_[index].finish, link_out_free_);
}

void Drive::complete(std::uint32_t index) {
  const Request& request = requests_[index];
  const HostRequest& host = request.host;
  if (host.op == HostOp::read) {
    ++counters_.host_reads;
    counters_.host_read_bytes += host.bytes;
  } else if (host.op == HostOp::write && !request.failed) {
    ++counters_.host_writes;
  }
  digest_ = (digest_ ^ host.tag) * fnv_prime;
  digest_ = (digest_ ^ static_cast<std::uint64_t>(now_)) * fnv_prime;
  completions_.push_back({.tag = host.tag,
                          .bytes = host.bytes,
                          .submitted = request.submitted,
                          .at = now_,
                          .op = host.op,
                          .io_class = host.io_class,
                          .failed = request.failed});
  free_requests_.push_back(index);
  --in_flight_;
  dispatch();
  if (in_flight_ == 0) pump_collection();
}

void Drive::pump_writes() {
  while (!writes_.empty()) {
    const std::uint32_t index = writes_.front();
    if (!buffer_write(index)) break;
    writes_.pop_front();
    requests_[index].finish = now_;
    settle(index);
  }
  if (host_blocked() || ftl_.needs_collection(erasing_.size()) || ftl_.needs_fold()) pump_collection();
}

// Grains that a unit takes whose data shrink so much on average: some shrink better than others.
std::uint32_t Drive::compressed_length(double ratio) {
  const std::uint32_t most = layout_.grains_per_unit;
  if (most == 1 || ratio <= 1) return most;
  constexpr double least_share = 0.75, spread = 0.5;
  const double grains = most / ratio * (least_share + spread * lengths_.unit());
  return std::clamp(static_cast<std::uint32_t>(std::ceil(grains)), 1U, most);
}

// Takes what is left of a write into the buffer; false if some of it has to wait.
bool Drive::buffer_write(std::uint32_t index) {
  const HostRequest host = requests_[index].host;
  const auto end = static_cast<std::uint32_t>((host.offset + host.bytes - 1) / layout_.unit_bytes) + 1;
  const std::uint32_t frontier = ftl_.host_frontier(handle_of(host));
  for (std::uint32_t& unit = requests_[index].unit; unit < end; ++unit) {
    if (ftl_.worn_out()) {
      requests_[index].failed = true;
      return true;
    }
    if (buffered_ >= buffer_grains_ || !ftl_.can_append(frontier)) return false;
    const std::uint32_t bytes = clipped(host, unit, 1);
    const std::uint32_t old = ftl_.lookup(unit);
    const std::uint32_t grains = compressed_length(static_cast<double>(host.compress));
    const auto placed = put(frontier, unit, Stream::host, grains, static_cast<std::size_t>(IoClass::write));
    if (!placed) return false;
    counters_.host_written_bytes += bytes;
    counters_.merge_bytes += layout_.unit_bytes - bytes;
    counters_.saved_bytes += std::uint64_t{layout_.grains_per_unit - grains} * layout_.grain_bytes;
    if (bytes < layout_.unit_bytes && old != none && ftl_.programmed(old)) {
      read_page(old, layout_.unit_bytes, Purpose::merge, static_cast<std::size_t>(IoClass::write), 0, 0, 0);
    }
    touch_map(unit);
    heat_.touch(unit);
    if (read_cache_.any()) read_cache_.drop(unit);
    if (content_ && host.data != nullptr) store(host, unit, old, placed->pua);
  }
  return true;
}

// What a request writes of a unit; what it does not write of it stays as it was at `old`.
void Drive::store(const HostRequest& host, std::uint32_t lpn, std::uint32_t old, std::uint32_t pua) {
  const std::uint64_t unit_begin = std::uint64_t{lpn} * layout_.unit_bytes;
  const std::uint64_t begin = std::max(host.offset, unit_begin);
  const std::span<const std::byte> from(host.data + (begin - host.offset), clipped(host, lpn, 1));
  if (from.size() == layout_.unit_bytes) return content_->write(pua, from);
  merged_.assign(layout_.unit_bytes, std::byte{0});
  if (old != none) content_->read(old, 0, merged_);
  std::ranges::copy(from, merged_.begin() + static_cast<std::ptrdiff_t>(begin - unit_begin));
  content_->write(pua, merged_);
}

void Drive::trim(std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t unit = layout_.unit_bytes;
  const auto first = static_cast<std::uint32_t>((offset + unit - 1) / unit);  // whole units only
  const auto end = static_cast<std::uint32_t>((offset + bytes) / unit);
  for (std::uint32_t lpn = first; lpn < end; ++lpn) {
    ftl_.trim(lpn);
    touch_map(lpn);
    if (read_cache_.any()) read_cache_.drop(lpn);
  }
  if (end > first) counters_.trimmed_bytes += std::uint64_t{end - first} * unit;
}

void Drive::step() {
  const Event event = events_.pop();
  now_ = event.at;
  ++event_count_;
  switch (event.kind) {
    case EventKind::issue:
      return issue(event.index);
    case EventKind::arrived:
      writes_.push_back(event.index);
      return pump_writes();
    case EventKind::sensed:
      return flash_.on_sensed(event.index, now_);
    case EventKind::moved:
      return flash_.on_moved(event.index, now_);
    case EventKind::die_done:
      return flash_.on_die_done(event.index, now_);
    case EventKind::suspended:
      return flash_.on_suspended(event.index, now_);
    case EventKind::complete:
      return complete(event.index);
  }
}

void Drive::run_until(Time time) {
  while (!events_.empty() && events_.top().at <= time) step();
  now_ = std::max(now_, time);
}

void Drive::run_until_idle() {
  while (!events_.empty()) step();
}

void Drive::drain() {
  do {
    pad_begun(ftl_.order(), ftl_.frontier_count());
    run_until_idle();
  } while (ftl_.oldest_unprogrammed() <= ftl_.order());
}

}  // namespace artesian::nand
