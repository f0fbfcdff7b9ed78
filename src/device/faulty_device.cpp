#include "device/faulty_device.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/units.h"

namespace artesian {
namespace {

constexpr int rubbish = 0xDB;
constexpr std::size_t batch = 64;

std::byte& byte_at(const IoRequest& request, std::uint64_t at) {
  auto piece = request.memory().begin();
  for (; at >= piece->size(); ++piece) at -= piece->size();
  return (*piece)[at];
}

}  // namespace

FaultyDevice::FaultyDevice(Device& behind, FaultPlan plan) : behind_(behind), plan_(plan), random_(plan.seed) {}

bool FaultyDevice::chosen(double rate) {
  // One draw each time, whatever the rate: a fault more of one kind leaves the others where they were.
  return static_cast<double>(random_() >> 11) * 0x1p-53 < rate;
}

bool FaultyDevice::is_nth(std::uint64_t count, std::uint64_t n) const {
  return n != 0 && (count == n || (plan_.fail_from_then_on && count > n));
}

DeviceCounters FaultyDevice::counters() const {
  DeviceCounters counters = behind_.counters();
  counters.in_flight += static_cast<std::uint32_t>(held_.size() + ready_.size());
  return counters;
}

Status FaultyDevice::submit(std::span<const IoRequest> requests) {
  ++submits_;
  if (is_nth(submits_, plan_.fail_submit)) {
    ++faults_;
    return fail(Code::device_failed, "fault with seed {}: submit number {} fails", plan_.seed, submits_);
  }
  std::vector<IoRequest> renamed;
  std::vector<IoCompletion> lost;
  std::vector<std::uint64_t> taken;
  for (IoRequest request : requests) {
    if (free_.empty()) {
      free_.push_back(sent_.size());
      sent_.emplace_back();
    }
    const std::uint64_t tag = free_.back();
    free_.pop_back();
    taken.push_back(tag);
    sent_[tag].request = request;
    request.tag = tag;
    if (mislead(request, sent_[tag])) {
      renamed.push_back(request);
    } else {
      lost.push_back({.tag = tag, .bytes = request.bytes(), .status = {}});
    }
  }
  auto submitted = behind_.submit(renamed);
  if (submitted) {
    std::ranges::move(lost, std::back_inserter(lost_));
  } else {
    free_.insert(free_.end(), taken.begin(), taken.end());
  }
  return submitted;
}

// Makes the request what the drive does instead of it; false if it does nothing at all.
bool FaultyDevice::mislead(IoRequest& request, Sent& sent) {
  if (plan_.lost_rate + plan_.torn_rate + plan_.misdirect_rate == 0 || request.op == IoOp::flush) return true;
  const bool lost = chosen(plan_.lost_rate), torn = chosen(plan_.torn_rate), astray = chosen(plan_.misdirect_rate);
  const std::uint64_t place = random_();
  const bool write = request.op == IoOp::write;
  const std::uint64_t unit = facts().alignment, blocks = request.bytes() / unit;
  const std::uint64_t places =
      (facts().file_bytes[request.file] - std::min(facts().file_bytes[request.file], request.bytes())) / unit;
  if (write && (lost || (torn && blocks == 1))) {
    ++faults_;
    return false;
  }
  if (write && torn) {
    ++faults_;
    std::uint64_t left = (1 + place % (blocks - 1)) * unit;
    sent.pieces.clear();
    for (const auto& piece : request.memory()) {
      const auto part = piece.first(std::min<std::uint64_t>(left, piece.size()));
      if (!part.empty()) sent.pieces.push_back(part);
      left -= part.size();
    }
    request.pieces = sent.pieces;
  } else if (astray && places > 0) {
    ++faults_;
    request.offset = place % places * unit;
  }
  return true;
}

std::size_t FaultyDevice::poll(std::span<IoCompletion> out) {
  std::array<IoCompletion, batch> some;
  std::vector<IoCompletion> lost = std::exchange(lost_, {});
  take(lost);
  take(std::span(some).first(behind_.poll(some)));
  release_due();
  return deliver(out);
}

std::size_t FaultyDevice::wait(std::span<IoCompletion> out, Nanos deadline) {
  std::array<IoCompletion, batch> some;
  for (;;) {
    std::vector<IoCompletion> lost = std::exchange(lost_, {});
    take(lost);
    release_due();
    if (const std::size_t count = deliver(out); count > 0 || out.empty()) return count;
    const std::size_t arrived = behind_.wait(some, deadline);
    take(std::span(some).first(arrived));
    if (arrived > 0) continue;
    if (held_.empty()) return 0;
    release_any();  // nothing else will come: what is held must not wait for it
  }
}

void FaultyDevice::take(std::span<IoCompletion> completions) {
  for (IoCompletion& completion : completions) {
    const IoRequest request = sent_[completion.tag].request;
    free_.push_back(completion.tag);
    completion.tag = request.tag;
    if (completion.status && request.op == IoOp::write) completion.bytes = request.bytes();
    ++completions_;
    spoil(request, completion);
    const std::uint32_t calls = plan_.hold_max == 0 ? 0 : static_cast<std::uint32_t>(random_() % (plan_.hold_max + 1));
    held_.push_back({std::move(completion), calls});
  }
}

void FaultyDevice::spoil(const IoRequest& request, IoCompletion& completion) {
  const bool error = chosen(plan_.error_rate) || is_nth(completions_, plan_.fail_completion);
  const bool cut = chosen(plan_.short_rate);
  const bool flip = chosen(plan_.flip_rate);
  const std::uint64_t place = random_();
  const bool read = request.op == IoOp::read;
  if (!completion.status || !(error || (read && (cut || flip)))) return;
  ++faults_;
  if (error || cut) {
    const std::uint64_t blocks = std::max<std::uint64_t>(request.bytes() / facts().alignment, 1);
    completion.bytes = error ? 0 : std::min(completion.bytes, place % blocks * facts().alignment);
    if (read) {
      std::uint64_t good = completion.bytes;
      for (const auto& piece : request.memory()) {
        const std::uint64_t kept = std::min<std::uint64_t>(good, piece.size());
        good -= kept;
        if (kept < piece.size()) std::memset(piece.data() + kept, rubbish, piece.size() - kept);
      }
    }
    completion.status =
        fail(Code::device_failed, "fault with seed {}: file {}: offset {}: {}, {} of {} bytes", plan_.seed,
             request.file, request.offset, error ? "error" : "short read", completion.bytes, request.bytes());
  } else if (completion.bytes > 0) {
    const std::uint64_t bit = place % (completion.bytes * 8);
    byte_at(request, bit / 8) ^= static_cast<std::byte>(1U << (bit % 8));
  }
}

void FaultyDevice::release_due() {
  for (std::size_t i = 0; i < held_.size();) {
    if (held_[i].calls_left-- > 0) {
      ++i;
      continue;
    }
    ready_.push_back(std::move(held_[i].completion));
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void FaultyDevice::release_any() {
  held_[random_() % held_.size()].calls_left = 0;
}

std::size_t FaultyDevice::deliver(std::span<IoCompletion> out) {
  std::size_t count = 0;
  while (count < out.size() && !ready_.empty()) {
    out[count++] = std::move(ready_.front());
    ready_.pop_front();
  }
  return count;
}

Status FaultyDevice::discard(FileIndex file, std::uint64_t offset, std::uint64_t bytes) {
  return behind_.discard(file, offset, bytes);
}

}  // namespace artesian
