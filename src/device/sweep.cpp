#include "device/sweep.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <random>

#include "platform/arena.h"

namespace artesian {
namespace {

double percentile_us(std::vector<Nanos>& latencies, double part) {
  if (latencies.empty()) return 0;
  const auto rank = static_cast<std::size_t>(part * static_cast<double>(latencies.size() - 1));
  const auto place = latencies.begin() + static_cast<std::ptrdiff_t>(rank);
  std::ranges::nth_element(latencies, place);
  return static_cast<double>(place->count()) / 1e3;
}

// One point: `depth` requests are kept outstanding until time or bytes are up, then the rest is waited for.
class PointRun {
 public:
  PointRun(Device& device, const Clock& clock, std::span<std::byte> memory, const SweepOptions& options,
           SweepPoint point)
      : device_(device), clock_(clock), memory_(memory), options_(options), point_(point), random_(options.seed) {
    places_ = device.facts().file_bytes[options.file] / point.request_bytes;
    started_.resize(point.depth);
  }

  Result<SweepPoint> run() {
    begin_ = clock_.now();
    for (std::uint32_t slot = 0; slot < point_.depth; ++slot) again_.push_back(request(slot));
    bool going = true;
    std::uint32_t outstanding = 0;
    Status status;
    while (going || outstanding > 0) {
      if (going && !again_.empty()) {
        for (const IoRequest& one : again_) started_[one.tag] = clock_.now();
        status = device_.submit(again_);
        if (!status) going = false;
        if (going) outstanding += static_cast<std::uint32_t>(again_.size());
      }
      again_.clear();
      if (outstanding == 0) break;
      const std::size_t count = device_.wait(done_, Nanos::max());
      const Nanos now = clock_.now();
      for (std::size_t i = 0; i < count; ++i) {
        --outstanding;
        if (!done_[i].status && status) status = done_[i].status;
        bytes_ += done_[i].bytes;
        latencies_.push_back(now - started_[done_[i].tag]);
        again_.push_back(request(done_[i].tag));
      }
      if (!status || over(now)) going = false;
    }
    if (!status) return fail(status.error());
    return figures(clock_.now());
  }

 private:
  IoRequest request(std::uint64_t slot) {
    return {.op = point_.op,
            .io_class = point_.op == IoOp::read ? IoClass::demand : IoClass::write,
            .file = options_.file,
            .offset = random_() % places_ * point_.request_bytes,
            .buffer = memory_.subspan(slot * point_.request_bytes, point_.request_bytes),
            .tag = slot};
  }

  bool over(Nanos now) const {
    return now - begin_ >= options_.time_per_point ||
           (options_.bytes_per_point != 0 && bytes_ >= options_.bytes_per_point);
  }

  SweepPoint figures(Nanos end) {
    const double seconds = std::max(static_cast<double>((end - begin_).count()), 1.0) / 1e9;
    point_.bytes_per_second = static_cast<double>(bytes_) / seconds;
    point_.iops = static_cast<double>(latencies_.size()) / seconds;
    point_.p50_us = percentile_us(latencies_, 0.50);
    point_.p99_us = percentile_us(latencies_, 0.99);
    return point_;
  }

  Device& device_;
  const Clock& clock_;
  std::span<std::byte> memory_;
  const SweepOptions& options_;
  SweepPoint point_;
  std::mt19937_64 random_;
  std::uint64_t places_ = 0, bytes_ = 0;
  Nanos begin_{0};
  std::vector<Nanos> started_, latencies_;
  std::vector<IoRequest> again_;
  std::array<IoCompletion, 64> done_;
};

std::vector<SweepPoint> points_of(const Device& device, const SweepOptions& options) {
  std::vector<SweepPoint> points;
  for (const IoOp op : {IoOp::read, IoOp::write}) {
    if (!(op == IoOp::read ? options.read : options.write)) continue;
    for (const std::uint64_t bytes : options.request_bytes) {
      if (bytes == 0 || bytes > device.facts().file_bytes[options.file]) continue;
      for (const std::uint32_t depth : options.depths) {
        if (depth == 0 || depth > device.facts().queue_depth_max) continue;
        points.push_back({.op = op, .request_bytes = bytes, .depth = depth});
      }
    }
  }
  return points;
}

void fill(std::span<std::byte> memory, std::uint64_t seed) {  // with what no drive can compress
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i + 8 <= memory.size(); i += 8) {
    const auto word = std::bit_cast<std::array<std::byte, 8>>(random());
    std::ranges::copy(word, memory.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

constexpr std::uint64_t huge_page = 2 * MiB;
constexpr std::uint64_t fill_bytes = 1 * MiB;  // of one write of fill_file

// No two blocks of a filled file are alike.
void stamp(std::span<std::byte> memory, std::uint64_t offset) {
  for (std::size_t i = 0; i + 8 <= memory.size(); i += 4096) {
    const auto word = std::bit_cast<std::array<std::byte, 8>>(offset + i);
    std::ranges::copy(word, memory.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

}  // namespace

Result<std::vector<SweepPoint>> sweep_device(Device& device, const Clock& clock, const SweepOptions& options) {
  if (options.file >= device.facts().file_bytes.size()) {
    return fail(Code::invalid, "{}: there is no file number {}", device.facts().name, options.file);
  }
  auto points = points_of(device, options);
  if (points.empty()) {
    return fail(Code::invalid, "{}: no request size and depth fits a file of {}", device.facts().name,
                format_size(device.facts().file_bytes[options.file]));
  }
  std::uint64_t memory_bytes = 0;
  for (const auto& point : points) memory_bytes = std::max(memory_bytes, point.request_bytes * point.depth);
  if (options.huge_pages) memory_bytes = align_up(memory_bytes, huge_page);
  auto arena = Arena::reserve(memory_bytes, options.huge_pages ? Arena::Pages::large : Arena::Pages::small);
  if (!arena) return fail(std::move(arena.error()));
  const auto memory = arena->span();
  fill(memory, options.seed);  // also touches all of it: no page fault is measured
  const bool registered = options.registered && device.register_memory(memory);
  Status status;
  bool read_into = false;
  for (SweepPoint& point : points) {
    if (point.op == IoOp::write && read_into) fill(memory, options.seed);  // what was read may compress well
    read_into = point.op == IoOp::read;
    auto measured = PointRun(device, clock, memory, options, point).run();
    if (!measured) {
      status = fail(std::move(measured.error()));
      break;
    }
    point = *measured;
    point.registered = registered;
    if (options.progress) options.progress(point, static_cast<std::size_t>(&point - points.data()) + 1, points.size());
  }
  if (registered) device.unregister_memory(memory);
  if (!status) return fail(std::move(status.error()));
  return points;
}

Status fill_file(Device& device, FileIndex file, std::uint64_t seed, const std::function<void(double part)>& progress) {
  if (file >= device.facts().file_bytes.size()) {
    return fail(Code::invalid, "{}: there is no file number {}", device.facts().name, file);
  }
  const std::uint64_t all = device.facts().file_bytes[file];
  const std::uint32_t depth = std::min(device.facts().queue_depth_max, 16U);
  auto arena = Arena::reserve(depth * fill_bytes);
  if (!arena) return fail(std::move(arena.error()));
  fill(arena->span(), seed);
  std::vector<std::uint64_t> idle(depth);
  std::iota(idle.begin(), idle.end(), 0);
  std::uint64_t next = 0, written = 0;
  Status status;
  std::array<IoCompletion, 16> done;
  while ((status && next < all) || idle.size() < depth) {
    while (status && next < all && !idle.empty()) {
      const auto buffer = arena->span().subspan(idle.back() * fill_bytes, std::min(fill_bytes, all - next));
      stamp(buffer, next);
      const IoRequest request{.op = IoOp::write,
                              .io_class = IoClass::write,
                              .file = file,
                              .offset = next,
                              .buffer = buffer,
                              .tag = idle.back()};
      status = device.submit(std::span(&request, 1));
      if (!status) break;
      idle.pop_back();
      next += buffer.size();
    }
    const std::size_t count = idle.size() < depth ? device.wait(done, Nanos::max()) : 0;
    for (std::size_t i = 0; i < count; ++i) {
      idle.push_back(done[i].tag);
      written += done[i].bytes;
      if (!done[i].status && status) status = fail(done[i].status.error());
    }
    if (progress) progress(static_cast<double>(written) / static_cast<double>(all));
  }
  if (!status) return status;
  return device.flush();
}

double best_read_bandwidth(std::span<const SweepPoint> points) {
  double best = 0;
  for (const SweepPoint& point : points) {
    if (point.op == IoOp::read) best = std::max(best, point.bytes_per_second);
  }
  return best;
}

}  // namespace artesian
