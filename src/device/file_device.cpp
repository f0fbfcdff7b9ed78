#include "device/file_device.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>

#include "base/units.h"
#include "device/io_backend.h"

namespace artesian {
namespace {

constexpr std::uint32_t direct_alignment = 4096;

struct Slot {
  IoRequest request;
  std::uint64_t done = 0;  // bytes moved so far
};

class FileDevice final : public Device {
 public:
  FileDevice(std::vector<File> files, DeviceFacts facts, std::unique_ptr<IoEngine> engine, const Clock& clock)
      : files_(std::move(files)), facts_(std::move(facts)), engine_(std::move(engine)), clock_(clock) {
    slots_.resize(facts_.queue_depth_max);
    for (std::uint32_t i = facts_.queue_depth_max; i-- > 0;) free_.push_back(i);
  }

  ~FileDevice() override {
    for (auto& queue : queues_) queue.clear();
    std::array<IoCompletion, 16> ignored;
    while (in_flight() > 0) wait(ignored, clock_.now() + std::chrono::seconds(1));
  }

  const DeviceFacts& facts() const override { return facts_; }

  DeviceCounters counters() const override {
    DeviceCounters counters = counters_;
    counters.in_flight = in_flight();
    counters.queued = queued_;
    if (counters.in_flight > 0) counters.busy += clock_.now() - busy_since_;
    return counters;
  }

  Status submit(std::span<const IoRequest> requests) override {
    if (requests.size() + queued_ + in_flight() > facts_.queue_max) {
      return fail(Code::retry, "{}: {} requests are waiting, the limit", facts_.name, facts_.queue_max);
    }
    for (const IoRequest& request : requests) {
      if (auto checked = check(request); !checked) return checked;
    }
    for (const IoRequest& request : requests) queues_[static_cast<std::size_t>(request.io_class)].push_back(request);
    queued_ += static_cast<std::uint32_t>(requests.size());
    start();
    engine_->submit();
    return {};
  }

  std::size_t poll(std::span<IoCompletion> out) override { return reap(out, false, Nanos{0}); }

  std::size_t wait(std::span<IoCompletion> out, Nanos deadline) override {
    if (std::size_t count = reap(out, false, Nanos{0}); count > 0) return count;
    while (in_flight() > 0) {
      const Nanos now = clock_.now();
      if (now >= deadline) return 0;
      if (std::size_t count = reap(out, true, deadline - now); count > 0) return count;
    }
    return 0;
  }

  bool register_memory(std::span<std::byte> memory) override { return engine_->register_memory(memory); }

  Status discard(FileIndex file, std::uint64_t offset, std::uint64_t bytes) override {
    if (file >= files_.size()) return fail(Code::invalid, "{}: no file {}", facts_.name, file);
    return files_[file].punch_hole(offset, bytes);
  }

  Status flush() override {
    for (const File& file : files_) {
      if (auto synced = file.sync_data(); !synced) return synced;
    }
    return {};
  }

 private:
  std::uint32_t in_flight() const { return facts_.queue_depth_max - static_cast<std::uint32_t>(free_.size()); }

  Status check(const IoRequest& request) const {
    if (request.file >= files_.size()) return fail(Code::invalid, "{}: no file {}", facts_.name, request.file);
    const auto address = reinterpret_cast<std::uintptr_t>(request.buffer.data());
    if (request.offset % facts_.alignment != 0 || request.buffer.size() % facts_.alignment != 0 ||
        address % facts_.alignment != 0 || request.buffer.empty()) {
      return fail(Code::invalid, "{}: offset {} and size {} must be multiples of {}", files_[request.file].path(),
                  request.offset, request.buffer.size(), facts_.alignment);
    }
    if (request.op == IoOp::read && request.offset >= facts_.file_bytes[request.file]) {
      return fail(Code::invalid, "{}: offset {} lies beyond the end at {}", files_[request.file].path(), request.offset,
                  facts_.file_bytes[request.file]);
    }
    return {};
  }

  // Moves waiting requests to the drive, earlier classes first.
  void start() {
    for (auto& queue : queues_) {
      while (!queue.empty() && !free_.empty()) {
        const std::uint32_t index = free_.back();
        slots_[index] = {.request = queue.front(), .done = 0};
        if (!engine_->start(operation(index))) return;
        if (in_flight() == 0) busy_since_ = clock_.now();
        free_.pop_back();
        queue.pop_front();
        --queued_;
      }
    }
  }

  IoOperation operation(std::uint32_t index) const {
    const Slot& slot = slots_[index];
    return {.file = &files_[slot.request.file],
            .write = slot.request.op == IoOp::write,
            .offset = slot.request.offset + slot.done,
            .buffer = slot.request.buffer.subspan(slot.done),
            .id = index};
  }

  std::size_t reap(std::span<IoCompletion> out, bool block, Nanos timeout) {
    std::array<IoDone, 64> done;
    const std::size_t room = std::min(done.size(), out.size());
    const std::size_t reaped = engine_->reap(std::span(done).first(room), block, timeout);
    std::size_t count = 0;
    for (std::size_t i = 0; i < reaped; ++i) {
      if (finish(done[i], out[count])) ++count;
    }
    if (reaped > 0) {
      start();
      engine_->submit();
    }
    return count;
  }

  // False when the operation goes on: part of it moved, the rest was started again.
  bool finish(const IoDone& done, IoCompletion& out) {
    const auto index = static_cast<std::uint32_t>(done.id);
    Slot& slot = slots_[index];
    const IoRequest& request = slot.request;
    const bool again = done.error == EINTR || done.error == EAGAIN;
    if (done.error == 0) slot.done += done.bytes;
    const bool whole = slot.done >= request.buffer.size();
    const bool at_end =
        request.op == IoOp::read && done.error == 0 && request.offset + slot.done >= facts_.file_bytes[request.file];
    const bool stuck = done.error == 0 && done.bytes == 0;
    // A direct read that ends off the alignment has met the end of the file: going on there is not possible.
    const bool off_alignment = slot.done % facts_.alignment != 0;
    if ((again || (done.error == 0 && !stuck && !off_alignment)) && !whole && !at_end) {
      if (engine_->start(operation(index))) {
        engine_->submit();
        return false;
      }
    }
    out = {.tag = request.tag, .bytes = slot.done, .status = {}};
    const File& file = files_[request.file];
    const char* verb = request.op == IoOp::read ? "read" : "write";
    if (done.error != 0) {
      out.status = fail(Code::device_failed, "{}: {} at offset {}: {}", file.path(), verb, request.offset,
                        std::strerror(done.error));
    } else if (!whole && !at_end) {
      out.status = fail(Code::device_failed, "{}: {} at offset {}: {} of {} bytes arrived", file.path(), verb,
                        request.offset, slot.done, request.buffer.size());
    }
    count(request, slot.done);
    free_.push_back(index);
    if (in_flight() == 0) counters_.busy += clock_.now() - busy_since_;
    return true;
  }

  void count(const IoRequest& request, std::uint64_t bytes) {
    if (request.op == IoOp::read) {
      ++counters_.reads;
      counters_.bytes_read += bytes;
      if (!facts_.direct) files_[request.file].forget_cached(request.offset, request.buffer.size());
    } else {
      ++counters_.writes;
      counters_.bytes_written += bytes;
    }
  }

  std::vector<File> files_;
  DeviceFacts facts_;
  std::unique_ptr<IoEngine> engine_;
  const Clock& clock_;
  std::array<std::deque<IoRequest>, io_class_count> queues_;
  std::uint32_t queued_ = 0;
  std::vector<Slot> slots_;          // requests at the drive, by operation number
  std::vector<std::uint32_t> free_;  // numbers that are not in use
  DeviceCounters counters_;
  Nanos busy_since_{0};
};

Result<std::vector<File>> open_files(const FileDeviceOptions& options, bool& direct) {
  std::vector<File> files;
  for (const std::string& path : options.paths) {
    auto file = File::open(path, {.write = options.write, .create = options.create, .direct = direct});
    if (!file && file.error().code == Code::rejected && direct) {
      if (options.report) options.report(file.error().message + "; reading through the page cache");
      direct = false;
      return open_files(options, direct);
    }
    if (!file) return fail(std::move(file.error()));
    files.push_back(std::move(*file));
  }
  return files;
}

}  // namespace

Result<std::unique_ptr<Device>> open_file_device(const FileDeviceOptions& options, const Clock& clock) {
  if (options.paths.empty()) return fail(Code::invalid, "a device needs at least one file");
  if (options.queue_depth_max == 0) return fail(Code::invalid, "queue depth must be at least 1");
  DeviceFacts facts;
  facts.direct = options.direct;
  auto files = open_files(options, facts.direct);
  if (!files) return fail(std::move(files.error()));
  for (const File& file : *files) {
    const auto bytes = file.size();
    if (!bytes) return fail(bytes.error());
    facts.file_bytes.push_back(*bytes);
  }
  facts.alignment = direct_alignment;
  facts.queue_depth_max = options.queue_depth_max;
  facts.queue_max = options.queue_max;
  std::unique_ptr<IoEngine> engine;
  if (options.backend != IoBackend::threads) {
    auto ring = make_uring_engine(options.queue_depth_max);
    if (ring) {
      engine = std::move(*ring);
    } else if (options.backend == IoBackend::uring) {
      return fail(std::move(ring.error()));
    } else if (options.report) {
      options.report(ring.error().message + "; reading with a pool of threads");
    }
  }
  if (!engine) engine = make_thread_engine(std::min(options.thread_count, options.queue_depth_max));
  const std::size_t more = options.paths.size() - 1;
  facts.name = fmt::format("{}{}, {}{}", engine->name(), facts.direct ? ", O_DIRECT" : "", options.paths[0],
                           more > 0 ? fmt::format(" and {} more", more) : "");
  return std::make_unique<FileDevice>(std::move(*files), std::move(facts), std::move(engine), clock);
}

}  // namespace artesian
