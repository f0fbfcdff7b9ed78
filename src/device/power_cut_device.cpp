#include "device/power_cut_device.h"

#include <algorithm>
#include <utility>

namespace artesian {
namespace {
constexpr std::size_t sector = 512;
}  // namespace

PowerCutDevice::PowerCutDevice(Content files, std::uint64_t cut_at, MemoryDeviceOptions options)
    : now_(std::move(files)), durable_(now_), cut_at_(cut_at) {
  facts_ = {.name = "memory with a write cache",
            .alignment = options.alignment,
            .queue_depth_max = options.queue_depth_max,
            .queue_max = options.queue_max,
            .direct = true,
            .trims = true};
  for (std::size_t i = 0; i < now_.size(); ++i) {
    facts_.file_bytes.push_back(now_[i].size());
    names_.push_back(fmt::format("cached memory file {}", i));
  }
}

DeviceCounters PowerCutDevice::counters() const {
  DeviceCounters counters = counters_;
  counters.queued = queue_.size();
  return counters;
}

Status PowerCutDevice::submit(std::span<const IoRequest> requests) {
  if (auto checked = check_batch(facts_, names_, true, queue_.size(), requests); !checked) return checked;
  for (IoRequest request : requests) {
    // Only what is complete now is promised; the order in which this device serves would promise more.
    if (request.op == IoOp::flush) request.offset = durable_writes_ + unflushed_.size();
    queue_.push(request);
  }
  return {};
}

std::size_t PowerCutDevice::poll(std::span<IoCompletion> out) {
  const std::size_t room = std::min<std::size_t>(out.size(), facts_.queue_depth_max);
  std::size_t count = 0;
  while (count < room && !queue_.empty()) out[count++] = serve(queue_.pop());
  return count;
}

IoCompletion PowerCutDevice::serve(const IoRequest& request) {
  IoCompletion completion{.tag = request.tag, .bytes = 0, .status = {}};
  if (request.op == IoOp::write) cut_ = cut_ || ++writes_ == cut_at_;
  if (cut_) {
    completion.status =
        fail(Code::device_failed, "{}: offset {}: the power is gone", names_[request.file], request.offset);
  } else if (request.op == IoOp::flush) {
    make_durable(request.offset);
  } else if (request.op == IoOp::write) {
    write(request);
    completion.bytes = request.bytes();
  } else {
    const auto& file = now_[request.file];
    const std::uint64_t wanted = std::min(request.bytes(), facts_.file_bytes[request.file] - request.offset);
    completion.bytes =
        std::min<std::uint64_t>(wanted, file.size() - std::min<std::uint64_t>(file.size(), request.offset));
    if (completion.bytes < wanted) {
      completion.status = fail(Code::device_failed, "{}: offset {}: short read, {} of {} bytes", names_[request.file],
                               request.offset, completion.bytes, wanted);
    }
    std::uint64_t at = 0;
    for (const auto& piece : request.memory()) {
      const auto part = piece.first(std::min<std::uint64_t>(piece.size(), completion.bytes - at));
      if (part.empty()) break;
      std::ranges::copy(std::span(file).subspan(request.offset + at, part.size()), part.begin());
      at += part.size();
    }
    ++counters_.reads;
    counters_.bytes_read += completion.bytes;
  }
  return completion;
}

void PowerCutDevice::write(const IoRequest& request) {
  Unflushed unflushed{.file = request.file, .offset = request.offset, .bytes = {}};
  for (const auto& piece : request.memory()) unflushed.bytes.insert(unflushed.bytes.end(), piece.begin(), piece.end());
  std::ranges::copy(unflushed.bytes, now_[request.file].begin() + static_cast<std::ptrdiff_t>(request.offset));
  ++counters_.writes;
  counters_.bytes_written += unflushed.bytes.size();
  unflushed_.push_back(std::move(unflushed));
}

Status PowerCutDevice::discard(FileIndex file, std::uint64_t offset, std::uint64_t bytes) {
  if (file >= now_.size()) return fail(Code::invalid, "{}: there is no file number {}", facts_.name, file);
  const std::uint64_t end = now_[file].size(), first = std::min(offset, end);
  for (Content* content : {&now_, &durable_}) {  // at once: earlier than what was written before it
    std::ranges::fill(std::span((*content)[file]).subspan(first, std::min(bytes, end - first)), std::byte{0});
  }
  return {};
}

Status PowerCutDevice::flush() {
  if (cut_) return fail(Code::device_failed, "{}: the power is gone", facts_.name);
  make_durable(durable_writes_ + unflushed_.size());
  return {};
}

void PowerCutDevice::make_durable(std::uint64_t writes) {
  for (; durable_writes_ < writes; ++durable_writes_) {
    const Unflushed& write = unflushed_.front();
    std::ranges::copy(write.bytes, durable_[write.file].begin() + static_cast<std::ptrdiff_t>(write.offset));
    unflushed_.pop_front();
  }
}

PowerCutDevice::Content PowerCutDevice::after_cut(std::uint64_t seed) const {
  std::mt19937_64 random(seed);
  Content content = durable_;
  for (const Unflushed& write : unflushed_) {
    const std::uint64_t kind = random() % 4;
    if (kind == 0) continue;  // dropped
    const auto to = content[write.file].begin() + static_cast<std::ptrdiff_t>(write.offset);
    if (kind == 1) {
      std::ranges::copy(write.bytes, to);
      continue;
    }
    for (std::size_t at = 0; at < write.bytes.size(); at += sector) {  // torn
      if (random() % 2 == 0) continue;
      const auto part = std::span(write.bytes).subspan(at, sector);
      std::ranges::copy(part, to + static_cast<std::ptrdiff_t>(at));
    }
  }
  return content;
}

}  // namespace artesian
