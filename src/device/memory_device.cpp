#include "device/memory_device.h"

#include <algorithm>
#include <utility>

namespace artesian {
namespace {

std::vector<std::uint64_t> sizes(const std::vector<std::vector<std::byte>>& files) {
  std::vector<std::uint64_t> bytes;
  for (const auto& file : files) bytes.push_back(file.size());
  return bytes;
}

}  // namespace

MemoryDevice::MemoryDevice(std::vector<std::vector<std::byte>> files, MemoryDeviceOptions options)
    : MemoryDevice(sizes(files), nullptr, options) {
  files_ = std::move(files);
}

MemoryDevice::MemoryDevice(std::vector<std::uint64_t> file_bytes, Generator generator, MemoryDeviceOptions options)
    : bytes_now_(file_bytes), generator_(std::move(generator)) {
  facts_ = {.name = "memory",
            .engine = "memory",
            .alignment = options.alignment,
            .queue_depth_max = options.queue_depth_max,
            .queue_max = options.queue_max,
            .direct = true,
            .file_bytes = std::move(file_bytes)};
  for (std::size_t i = 0; i < facts_.file_bytes.size(); ++i) names_.push_back(fmt::format("memory file {}", i));
}

DeviceCounters MemoryDevice::counters() const {
  DeviceCounters counters = counters_;
  counters.queued = queue_.size();
  return counters;
}

Status MemoryDevice::submit(std::span<const IoRequest> requests) {
  if (auto checked = check_batch(facts_, names_, !generator_, queue_.size(), requests); !checked) return checked;
  for (const IoRequest& request : requests) queue_.push(request);
  return {};
}

std::size_t MemoryDevice::poll(std::span<IoCompletion> out) {
  const std::size_t room = std::min<std::size_t>(out.size(), facts_.queue_depth_max);
  std::size_t count = 0;
  while (count < room && !queue_.empty()) out[count++] = serve(queue_.pop());
  return count;
}

IoCompletion MemoryDevice::serve(const IoRequest& request) {
  if (request.op == IoOp::flush) return {.tag = request.tag, .bytes = 0, .status = {}};
  const bool read = request.op == IoOp::read;
  const std::uint64_t size = request.bytes();
  const std::uint64_t wanted = std::min(size, facts_.file_bytes[request.file] - request.offset);
  const std::uint64_t there = bytes_now_[request.file] - std::min(bytes_now_[request.file], request.offset);
  const std::uint64_t moved = std::min(wanted, there);
  std::uint64_t at = 0;
  for (const auto& piece : request.memory()) {
    const auto part = piece.first(std::min<std::uint64_t>(piece.size(), moved - at));
    if (part.empty()) break;
    if (generator_) {
      generator_(request.file, request.offset + at, part);
    } else {
      const auto place = std::span(files_[request.file]).subspan(request.offset + at, part.size());
      read ? std::ranges::copy(place, part.begin()) : std::ranges::copy(part, place.begin());
    }
    at += part.size();
  }
  ++(read ? counters_.reads : counters_.writes);
  (read ? counters_.bytes_read : counters_.bytes_written) += moved;
  IoCompletion completion{.tag = request.tag, .bytes = moved, .status = {}};
  if (moved < wanted) {
    completion.status = fail(Code::device_failed, "{}: offset {}: short {}, {} of {} bytes", names_[request.file],
                             request.offset, read ? "read" : "write", moved, wanted);
  }
  return completion;
}

Status MemoryDevice::discard(FileIndex file, std::uint64_t offset, std::uint64_t bytes) {
  if (file >= names_.size()) return fail(Code::invalid, "{}: there is no file number {}", facts_.name, file);
  if (generator_) return fail(Code::invalid, "{}: is open for reading only", names_[file]);
  const std::uint64_t end = bytes_now_[file];
  const std::uint64_t first = std::min(offset, end);
  std::ranges::fill(std::span(files_[file]).subspan(first, std::min(bytes, end - first)), std::byte{0});
  return {};
}

void MemoryDevice::shrink(FileIndex file, std::uint64_t bytes) {
  bytes_now_[file] = std::min(bytes_now_[file], bytes);
}

}  // namespace artesian
