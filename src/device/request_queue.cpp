#include "device/request_queue.h"

#include <cassert>

namespace artesian {

Status check_request(const DeviceFacts& facts, std::span<const std::string> names, bool writable,
                     const IoRequest& request) {
  if (request.file >= facts.file_bytes.size()) {
    return fail(Code::invalid, "{}: there is no file number {}", facts.name, request.file);
  }
  if (request.op == IoOp::flush) return {};
  const std::string& name = names[request.file];
  const std::uint64_t end = facts.file_bytes[request.file];
  const std::uint64_t bytes = request.bytes();
  if (bytes == 0) return fail(Code::invalid, "{}: offset {}: a request of no bytes", name, request.offset);
  if (request.offset % facts.alignment != 0 || bytes % facts.alignment != 0) {
    return fail(Code::invalid, "{}: offset {} and size {} must be multiples of {}", name, request.offset, bytes,
                facts.alignment);
  }
  if (request.pieces.size() > pieces_limit) {
    return fail(Code::invalid, "{}: offset {}: {} pieces of memory, at most {}", name, request.offset,
                request.pieces.size(), pieces_limit);
  }
  for (const auto& piece : request.memory()) {
    if (reinterpret_cast<std::uintptr_t>(piece.data()) % facts.alignment != 0 || piece.size() % facts.alignment != 0) {
      return fail(Code::invalid, "{}: offset {}: the buffer's address and size must be multiples of {}", name,
                  request.offset, facts.alignment);
    }
  }
  if (request.offset >= end) {
    return fail(Code::invalid, "{}: offset {} lies beyond the end at {}", name, request.offset, end);
  }
  if (request.op == IoOp::write) {
    if (!writable) return fail(Code::invalid, "{}: offset {}: is open for reading only", name, request.offset);
    if (bytes > end - request.offset) {
      return fail(Code::invalid, "{}: offset {}: a write of {} bytes passes the end at {}", name, request.offset, bytes,
                  end);
    }
  }
  return {};
}

Status check_batch(const DeviceFacts& facts, std::span<const std::string> names, bool writable,
                   std::uint64_t outstanding, std::span<const IoRequest> requests) {
  for (const IoRequest& request : requests) {
    if (auto checked = check_request(facts, names, writable, request); !checked) return checked;
  }
  if (outstanding + requests.size() > facts.queue_max) {
    return fail(Code::retry, "{}: {} requests are outstanding, {} more pass the limit of {}", facts.name, outstanding,
                requests.size(), facts.queue_max);
  }
  return {};
}

void RequestQueue::push(const IoRequest& request) {
  classes_[static_cast<std::size_t>(request.io_class)].push_back(request);
  ++size_;
}

const IoRequest* RequestQueue::next() const {
  for (const auto& queue : classes_) {
    if (!queue.empty()) return &queue.front();
  }
  return nullptr;
}

IoRequest RequestQueue::pop() {
  assert(!empty());
  for (auto& queue : classes_) {
    if (queue.empty()) continue;
    const IoRequest request = queue.front();
    queue.pop_front();
    --size_;
    return request;
  }
  return {};
}

void RequestQueue::clear() {
  for (auto& queue : classes_) queue.clear();
  size_ = 0;
}

}  // namespace artesian
