#include "stream/loader.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/units.h"

namespace artesian {
namespace {
constexpr std::uint32_t pieces_max = 1024;

std::uint64_t bounce_bytes_of(const Device& device) {
  return align_up(Loader::request_bytes_max + 2 * device.facts().alignment, device.facts().alignment);
}
}  // namespace

Result<Loader> Loader::create(Device& device, const Clock& clock) {
  auto bounce = Arena::reserve(bounce_buffers * bounce_bytes_of(device), Arena::Pages::large);
  if (!bounce) return fail(std::move(bounce.error()));
  return Loader(device, clock, std::move(*bounce));
}

Loader::Loader(Device& device, const Clock& clock, Arena bounce)
    : device_(&device), clock_(&clock), bounce_(std::move(bounce)), pieces_(pieces_max) {
  for (std::uint32_t i = pieces_max; i-- > 0;) free_.push_back(i);
  for (std::uint32_t i = bounce_buffers; i-- > 0;) bounce_free_.push_back(i);
}

void Loader::start(Load& load, const LoadRange& range, Urgency urgency) {
  const std::uint64_t alignment = device_->facts().alignment;
  const bool direct = reinterpret_cast<std::uintptr_t>(range.destination) % alignment == range.offset % alignment;
  const std::uint64_t first = align_down(range.offset, alignment);
  const std::uint64_t last = align_up(range.offset + range.bytes, alignment);
  load.failed = false;
  const std::uint64_t requests = std::max<std::uint64_t>(1, (last - first + request_bytes / 2) / request_bytes);
  const std::uint64_t step = align_up((last - first + requests - 1) / requests, alignment);
  for (std::uint64_t at = first; at < last; at += step) {
    push(load, range, at, std::min(at + step, last), urgency, direct);
  }
  pump();
}

void Loader::push(Load& load, const LoadRange& range, std::uint64_t first, std::uint64_t last, Urgency urgency,
                  bool direct) {
  const std::uint64_t from = std::max(first, range.offset);
  const std::uint64_t to = std::min(last, range.offset + range.bytes);
  Piece piece;
  piece.load = &load;
  piece.wanted = to - first;
  piece.request = {
      .io_class = urgency == Urgency::needed ? IoClass::demand : IoClass::staged, .file = range.file, .offset = first};
  std::byte* const place = range.destination + (from - range.offset);
  if (direct) {
    piece.request.buffer = {place - (from - first), last - first};
  } else {
    piece.copy_to = place;
    piece.copy_from = from - first;
    piece.copy_bytes = to - from;
    piece.request.buffer = {static_cast<std::byte*>(nullptr), last - first};
  }
  ++load.pending;
  (urgency == Urgency::guessed ? guesses_ : queue_).push_back(piece);
}

// Takes the piece that is to begin now out of its queue; false if none may.
bool Loader::next(Piece& piece) {
  const bool guess = queue_.empty();
  std::deque<Piece>& queue = guess ? guesses_ : queue_;
  if (queue.empty() || free_.empty() || in_flight_bytes_ >= (guess ? guess_bytes_max : in_flight_max_)) return false;
  piece = queue.front();
  if (piece.copy_to != nullptr && piece.request.buffer.data() == nullptr) {
    if (bounce_free_.empty()) return false;
    piece.bounce = bounce_free_.back();
    bounce_free_.pop_back();
    std::byte* buffer = bounce_.data() + piece.bounce * bounce_bytes_of(*device_);
    piece.request.buffer = {buffer, piece.request.buffer.size()};
  }
  queue.pop_front();
  return true;
}

void Loader::promote(const Load& load) {
  for (auto at = guesses_.begin(); at != guesses_.end();) {
    if (at->load != &load) {
      ++at;
      continue;
    }
    at->request.io_class = IoClass::demand;
    queue_.push_back(*at);
    at = guesses_.erase(at);
  }
}

void Loader::drop(Load& load) {
  const auto dropped = std::erase_if(guesses_, [&load](const Piece& piece) { return piece.load == &load; });
  load.pending -= static_cast<std::uint32_t>(dropped);
  load.failed = load.failed || dropped > 0;
}

void Loader::pump() {
  std::array<IoRequest, 64> batch;
  for (;;) {
    std::size_t count = 0;
    Piece piece;
    while (count < batch.size() && next(piece)) {
      const std::uint32_t index = free_.back();
      free_.pop_back();
      piece.request.tag = index;
      pieces_[index] = piece;
      in_flight_bytes_ += piece.request.buffer.size();
      batch[count++] = piece.request;
    }
    if (count == 0) return;
    in_flight_ += static_cast<std::uint32_t>(count);
    if (auto submitted = device_->submit(std::span(batch).first(count)); !submitted) {
      for (std::size_t i = 0; i < count; ++i) {
        pieces_[batch[i].tag].retried = true;
        complete({.tag = batch[i].tag, .bytes = 0, .status = submitted});
      }
    }
  }
}

void Loader::complete(const IoCompletion& completion) {
  Piece& piece = pieces_[completion.tag];
  --in_flight_;
  in_flight_bytes_ -= piece.request.buffer.size();
  free_.push_back(static_cast<std::uint32_t>(completion.tag));
  const bool arrived = completion.status.has_value() && completion.bytes >= piece.wanted;
  if (!arrived && !piece.retried) {
    Piece again = piece;
    again.retried = true;
    queue_.push_front(again);
    return;
  }
  if (arrived && piece.copy_to != nullptr) {
    std::memcpy(piece.copy_to, piece.request.buffer.data() + piece.copy_from, piece.copy_bytes);
  }
  if (piece.copy_to != nullptr) bounce_free_.push_back(piece.bounce);
  if (arrived) {
    counters_.bytes_read += completion.bytes;
  } else {
    piece.load->failed = true;
    last_error_ = completion.status
                      ? Error{Code::corrupt, fmt::format("the model file ends at offset {} where {} bytes were to come",
                                                         piece.request.offset + completion.bytes, piece.wanted)}
                      : completion.status.error();
  }
  --piece.load->pending;
}

void Loader::poll() {
  std::array<IoCompletion, 64> done;
  while (in_flight_ > 0) {
    const std::size_t count = device_->poll(done);
    if (count == 0) break;
    for (std::size_t i = 0; i < count; ++i) complete(done[i]);
    pump();
  }
}

void Loader::wait() {
  pump();
  if (in_flight_ == 0) return;
  const Nanos start = clock_->now();
  std::array<IoCompletion, 64> done;
  std::size_t count = 0;
  while (count == 0 && in_flight_ > 0) count = device_->wait(done, clock_->now() + std::chrono::seconds(1));
  for (std::size_t i = 0; i < count; ++i) complete(done[i]);
  counters_.stalled += clock_->now() - start;
  pump();
}

Status Loader::finish(Load& load) {
  while (load.pending > 0) wait();
  if (load.failed) return fail(last_error_);
  return {};
}

void Loader::drain() {
  while (!idle()) wait();
}

}  // namespace artesian
