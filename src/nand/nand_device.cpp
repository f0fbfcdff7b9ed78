#include "nand/nand_device.h"

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "device/request_queue.h"

namespace artesian::nand {
namespace {

constexpr std::uint64_t alignment = 4096;
constexpr std::uint64_t flush_tag = UINT64_MAX;

std::uint64_t step_of(const Profile& profile) {
  return std::max(profile.map_unit_bytes, alignment);
}

}  // namespace

Result<std::unique_ptr<NandDevice>> NandDevice::open(const Profile& profile, std::vector<std::uint64_t> file_bytes,
                                                     ManualClock& clock, NandDeviceOptions options) {
  if (auto checked = check_profile(profile); !checked) return fail(checked.error());
  if (auto checked = check_size(profile); !checked) return fail(checked.error());
  std::uint64_t sum = 0;
  for (const std::uint64_t bytes : file_bytes) sum += align_up(bytes, step_of(profile));
  if (sum > profile.capacity_bytes) {
    return fail(Code::invalid, "profile {}: files of {} do not fit its {}", profile.name, format_bytes(sum),
                format_bytes(profile.capacity_bytes));
  }
  return std::unique_ptr<NandDevice>(new NandDevice(profile, std::move(file_bytes), clock, std::move(options)));
}

NandDevice::NandDevice(const Profile& profile, std::vector<std::uint64_t> file_bytes, ManualClock& clock,
                       NandDeviceOptions options)
    : clock_(clock),
      options_(std::move(options)),
      drive_(profile, {.store_data = true, .seed = options_.seed}),
      bytes_now_(file_bytes) {
  std::uint64_t place = 0;
  for (std::size_t i = 0; i < file_bytes.size(); ++i) {
    names_.push_back(fmt::format("{} file {}", profile.name, i));
    first_.push_back(place);
    place += align_up(file_bytes[i], step_of(profile));
  }
  facts_ = {.name = fmt::format("simulated SSD, {}", profile.title),
            .alignment = alignment,
            .queue_depth_max = static_cast<std::uint32_t>(profile.queue_depth),
            .queue_max = options_.queue_max,
            .direct = true,
            .trims = true,
            .file_bytes = std::move(file_bytes)};
  drive_.run_until(clock_.now().count());
  drive_.reset_counters();
}

Status NandDevice::preload(FileIndex file, std::uint64_t offset, std::span<const std::byte> bytes) {
  if (file >= names_.size() || offset + bytes.size() > facts_.file_bytes[file]) {
    return fail(Code::invalid, "{}: file {}: offset {}: {} bytes to preload lie outside", facts_.name, file, offset,
                bytes.size());
  }
  drive_.preload(first_[file] + offset, bytes, traits(file).compress);
  return {};
}

DeviceCounters NandDevice::counters() const {
  DeviceCounters counters = counters_;
  counters.in_flight = drive_.in_flight();
  counters.queued = drive_.waiting();
  if (outstanding_ > 0) counters.busy += clock_.now() - busy_since_;
  return counters;
}

Status NandDevice::submit(std::span<const IoRequest> requests) {
  settle();
  if (auto checked = check_batch(facts_, names_, options_.writable, outstanding_ + finished_.size(), requests);
      !checked) {
    return checked;
  }
  std::vector<HostRequest> batch;
  for (const IoRequest& request : requests) {
    std::uint32_t slot = static_cast<std::uint32_t>(pending_.size());
    if (free_.empty()) {
      pending_.emplace_back();
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    batch.push_back(begin(slot, request));
  }
  if (outstanding_ == 0) busy_since_ = clock_.now();
  outstanding_ += static_cast<std::uint32_t>(batch.size());
  drive_.submit(batch);
  return {};
}

HostRequest NandDevice::begin(std::uint32_t slot, const IoRequest& request) {
  Pending& pending = pending_[slot];
  pending = {.request = request, .wanted = 0, .gathered = {}};
  if (request.op == IoOp::flush) return {.op = HostOp::flush, .io_class = request.io_class, .tag = slot};
  pending.wanted = std::min(request.bytes(), facts_.file_bytes[request.file] - request.offset);
  std::byte* data = request.memory()[0].data();
  if (request.memory().size() > 1) {
    pending.gathered.resize(request.bytes());
    data = pending.gathered.data();
    if (request.op == IoOp::write) {
      std::byte* to = data;
      for (const auto& piece : request.memory()) to = std::ranges::copy(piece, to).out;
    }
  }
  return {.op = request.op == IoOp::read ? HostOp::read : HostOp::write,
          .io_class = request.io_class,
          .handle = request.placement.id,
          .partition = traits(request.file).partition,
          .compress = static_cast<float>(traits(request.file).compress),
          .offset = first_[request.file] + request.offset,
          .bytes = pending.wanted,
          .tag = slot,
          .data = data};
}

void NandDevice::settle() {
  drive_.run_until(clock_.now().count());
  reap();
}

void NandDevice::reap() {
  for (const HostCompletion& done : drive_.completions()) {
    if (done.tag == flush_tag) {
      flushed_ = true;
      continue;
    }
    const auto slot = static_cast<std::uint32_t>(done.tag);
    finished_.push_back(finish(pending_[slot], done.failed));
    const IoOp op = pending_[slot].request.op;
    if (op != IoOp::flush) {
      ++(op == IoOp::read ? counters_.reads : counters_.writes);
      (op == IoOp::read ? counters_.bytes_read : counters_.bytes_written) += finished_.back().bytes;
    }
    free_.push_back(slot);
    if (--outstanding_ == 0) counters_.busy += Nanos(done.at) - busy_since_;
  }
  drive_.completions().clear();
}

IoCompletion NandDevice::finish(const Pending& pending, bool failed) const {
  const IoRequest& request = pending.request;
  if (request.op == IoOp::flush) return {.tag = request.tag, .bytes = 0, .status = {}};
  if (request.op == IoOp::read && !pending.gathered.empty()) {
    std::span<const std::byte> from(pending.gathered);
    for (const auto& piece : request.memory()) {
      std::ranges::copy(from.first(piece.size()), piece.begin());
      from = from.subspan(piece.size());
    }
  }
  IoCompletion completion{.tag = request.tag, .bytes = pending.wanted, .status = {}};
  const std::uint64_t there = bytes_now_[request.file] - std::min(bytes_now_[request.file], request.offset);
  if (failed) {
    completion.bytes = 0;
    completion.status = fail(Code::device_failed, "{}: offset {}: the drive is worn out and takes no more writes",
                             names_[request.file], request.offset);
  } else if (there < pending.wanted) {
    completion.bytes = there;
    completion.status = fail(Code::device_failed, "{}: offset {}: short {}, {} of {} bytes", names_[request.file],
                             request.offset, request.op == IoOp::read ? "read" : "write", there, pending.wanted);
  }
  return completion;
}

std::size_t NandDevice::deliver(std::span<IoCompletion> out) {
  std::size_t count = 0;
  while (count < out.size() && !finished_.empty()) {
    out[count++] = std::move(finished_.front());
    finished_.pop_front();
  }
  return count;
}

std::size_t NandDevice::poll(std::span<IoCompletion> out) {
  settle();
  return deliver(out);
}

std::size_t NandDevice::wait(std::span<IoCompletion> out, Nanos deadline) {
  settle();
  if (out.empty()) return 0;
  while (finished_.empty() && outstanding_ > 0 && !drive_.idle()) {
    clock_.advance_to(std::min(Nanos(drive_.next_event()), deadline));
    if (Nanos(drive_.next_event()) > deadline) break;
    drive_.step();
    reap();
  }
  return deliver(out);
}

Status NandDevice::discard(FileIndex file, std::uint64_t offset, std::uint64_t bytes) {
  if (file >= names_.size()) return fail(Code::invalid, "{}: there is no file number {}", facts_.name, file);
  if (!options_.writable) return fail(Code::invalid, "{}: is open for reading only", names_[file]);
  settle();
  const std::uint64_t end = facts_.file_bytes[file];
  const std::uint64_t first = std::min(offset, end);
  drive_.trim(first_[file] + first, std::min(bytes, end - first));
  return {};
}

Status NandDevice::flush() {
  settle();
  flushed_ = false;
  drive_.submit({.op = HostOp::flush, .tag = flush_tag});
  while (!flushed_ && !drive_.idle()) {
    clock_.advance_to(Nanos(drive_.next_event()));
    drive_.step();
    reap();
  }
  if (!flushed_) return fail(Code::device_failed, "{}: a flush did not end", facts_.name);
  return {};
}

void NandDevice::cut_power() {
  settle();
  clock_.advance(Nanos(drive_.cut_power()));
  drive_.run_until(clock_.now().count());
  pending_.clear();
  free_.clear();
  outstanding_ = 0;
}

void NandDevice::shrink(FileIndex file, std::uint64_t bytes) {
  bytes_now_[file] = std::min(bytes_now_[file], bytes);
}

}  // namespace artesian::nand
