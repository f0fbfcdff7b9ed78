#include "device/file_device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <deque>

#include "base/units.h"
#include "device/io_backend.h"
#include "device/request_queue.h"

namespace artesian {
namespace {

constexpr std::uint32_t least_alignment = 4096;
constexpr std::uint32_t depth_limit = 4096;
constexpr std::uint32_t refusals_max = 64;  // EAGAIN of one operation before it counts as an error

// One operation at the drive: a request, or neighbours that are moved together. Unused without parts.
struct Transfer {
  std::vector<IoRequest> parts;
  std::vector<iovec> memory;  // from `from` on
  std::uint64_t bytes = 0;    // of all parts
  std::size_t pieces = 0;     // of memory, of all parts
  std::uint64_t from = 0;     // where the operation that is under way began; as all here, from the first part's offset
  std::uint64_t done = 0;     // bytes moved so far
  std::uint32_t refusals = 0;

  const IoRequest& first() const { return parts.front(); }
};

class FileDevice final : public Device {
 public:
  struct Parts {
    std::vector<File> files;
    std::vector<std::string> names;
    std::vector<DrivePlacement> placements;
    DeviceFacts facts;
    std::unique_ptr<IoEngine> engine;
    bool writable = false;
    bool forget = false;  // what came through the page cache
    std::uint64_t merge_bytes = 0;
  };

  FileDevice(Parts parts, const Clock& clock) : own_(std::move(parts)), clock_(clock) {
    transfers_.resize(own_.facts.queue_depth_max);
    for (std::uint32_t i = own_.facts.queue_depth_max; i-- > 0;) free_.push_back(i);
  }

  ~FileDevice() override {
    queue_.clear();
    again_.clear();
    closing_ = true;
    while (active() > 0) reap(true, Nanos::max());
  }

  const DeviceFacts& facts() const override { return own_.facts; }

  DeviceCounters counters() const override {
    DeviceCounters counters = counters_;
    counters.queued = queue_.size() + static_cast<std::uint32_t>(again_.size());
    if (active() > 0) counters.busy += clock_.now() - busy_since_;
    return counters;
  }

  Status submit(std::span<const IoRequest> requests) override {
    if (auto checked = check_batch(own_.facts, own_.names, own_.writable, outstanding_, requests); !checked) {
      return checked;
    }
    for (const IoRequest& request : requests) queue_.push(request);
    outstanding_ += requests.size();
    start_waiting();
    return {};
  }

  std::size_t poll(std::span<IoCompletion> out) override {
    if (finished_.size() < out.size()) reap(false, Nanos{0});
    return deliver(out);
  }

  std::size_t wait(std::span<IoCompletion> out, Nanos deadline) override {
    if (out.empty()) return 0;
    for (;;) {
      if (const std::size_t count = poll(out); count > 0 || outstanding_ == 0) return count;
      const Nanos now = clock_.now();
      if (now >= deadline || woken_.exchange(false)) return 0;
      reap(true, deadline == Nanos::max() ? Nanos::max() : deadline - now);
    }
  }

  void wake() override {
    woken_ = true;
    own_.engine->wake();
  }

  bool register_memory(std::span<std::byte> memory) override { return own_.engine->register_memory(memory); }
  void unregister_memory(std::span<std::byte> memory) override { own_.engine->unregister_memory(memory); }

  Status discard(FileIndex file, std::uint64_t offset, std::uint64_t bytes) override {
    if (file >= own_.files.size()) return fail(Code::invalid, "{}: there is no file number {}", own_.facts.name, file);
    if (!own_.writable) return fail(Code::invalid, "{}: is open for reading only", own_.names[file]);
    auto punched = own_.files[file].punch_hole(offset, bytes);
    if (!punched && punched.error().code == Code::rejected) return {};  // best effort
    return punched;
  }

  Status flush() override {
    for (const File& file : own_.files) {
      if (!own_.writable) break;
      if (auto synced = file.sync_data(); !synced) return synced;
    }
    return {};
  }

 private:
  std::uint32_t active() const { return own_.facts.queue_depth_max - static_cast<std::uint32_t>(free_.size()); }

  // Moves waiting requests to the drive, in their order.
  void start_waiting() {
    bool started = false;
    while (!free_.empty() && !(again_.empty() && queue_.empty())) {
      if (active() == 0) busy_since_ = clock_.now();
      const std::uint32_t index = free_.back();
      free_.pop_back();
      Transfer& transfer = transfers_[index];
      if (!again_.empty()) {
        add(transfer, again_.front());
        again_.pop_front();
      } else {
        add(transfer, queue_.pop());
        while (const IoRequest* next = queue_.next()) {
          if (!joins(transfer, *next)) break;
          add(transfer, queue_.pop());
        }
      }
      start(index);
      started = true;
    }
    if (started) own_.engine->submit();
  }

  bool joins(const Transfer& transfer, const IoRequest& next) const {
    const IoRequest& first = transfer.first();
    return next.op == first.op && next.op != IoOp::flush && next.io_class == first.io_class &&
           next.file == first.file && next.placement.id == first.placement.id &&
           next.offset == first.offset + transfer.bytes && transfer.bytes + next.bytes() <= own_.merge_bytes &&
           transfer.pieces + next.memory().size() <= pieces_limit;
  }

  void add(Transfer& transfer, const IoRequest& request) {
    transfer.parts.push_back(request);
    transfer.bytes += request.bytes();
    transfer.pieces += request.memory().size();
    ++counters_.in_flight;
  }

  // Begins or goes on with a transfer from the last aligned place that it has reached.
  void start(std::uint32_t index) {
    Transfer& transfer = transfers_[index];
    transfer.from = align_down(transfer.done, own_.facts.alignment);
    transfer.memory.clear();
    std::uint64_t skip = transfer.from;
    for (const IoRequest& part : transfer.parts) {
      for (const auto& piece : part.memory()) {
        const auto rest = piece.subspan(std::min<std::uint64_t>(skip, piece.size()));
        skip -= piece.size() - rest.size();
        if (!rest.empty()) add_memory(transfer.memory, rest);
      }
    }
    own_.engine->start({.file = transfer.first().file,
                        .write = transfer.first().op == IoOp::write,
                        .flush = transfer.first().op == IoOp::flush,
                        .placement = transfer.first().placement.id,
                        .offset = transfer.first().offset + transfer.from,
                        .memory = transfer.memory,
                        .id = index});
  }

  static void add_memory(std::vector<iovec>& memory, std::span<std::byte> piece) {
    iovec* last = memory.empty() ? nullptr : &memory.back();
    if (last != nullptr && static_cast<std::byte*>(last->iov_base) + last->iov_len == piece.data()) {
      last->iov_len += piece.size();
    } else {
      memory.push_back({piece.data(), piece.size()});
    }
  }

  void reap(bool block, Nanos timeout) {
    std::array<IoDone, 64> done;
    for (;;) {
      const std::size_t count = own_.engine->reap(done, block, timeout);
      for (std::size_t i = 0; i < count; ++i) advance(static_cast<std::uint32_t>(done[i].id), done[i].result);
      if (count > 0) {
        start_waiting();
        own_.engine->submit();  // also what advance() has started again
      }
      if (count < done.size()) return;
      block = false;
    }
  }

  // What the file still had when it was opened; the rest of a read there is not an error.
  std::uint64_t expected(const Transfer& transfer) const {
    if (transfer.first().op == IoOp::flush) return 0;
    const std::uint64_t rest = own_.facts.file_bytes[transfer.first().file] - transfer.first().offset;
    return std::min(transfer.bytes, rest);
  }

  void advance(std::uint32_t index, std::int64_t result) {
    Transfer& transfer = transfers_[index];
    const bool passing = result == -EINTR || result == -EAGAIN;
    if (passing && transfer.refusals < refusals_max) {
      ++transfer.refusals;
      return start(index);
    }
    if (result < 0) return finish_failed(index, static_cast<int>(-result));
    const std::uint64_t reached = transfer.from + static_cast<std::uint64_t>(result);
    const bool further = reached > transfer.done;
    transfer.done = std::max(transfer.done, reached);
    if (transfer.done >= expected(transfer)) return finish(index, expected(transfer), 0);
    if (further) return start(index);
    finish(index, transfer.done, 0);  // the file has become shorter
  }

  // One bad place must not take its neighbours with it: they are moved again, each by itself.
  void finish_failed(std::uint32_t index, int error) {
    Transfer& transfer = transfers_[index];
    if (transfer.parts.size() == 1 || closing_) return finish(index, transfer.done, error);
    for (const IoRequest& part : transfer.parts) again_.push_back(part);
    counters_.in_flight -= static_cast<std::uint32_t>(transfer.parts.size());
    give_back(index);
  }

  void finish(std::uint32_t index, std::uint64_t moved, int error) {
    const Transfer& transfer = transfers_[index];
    const IoRequest& first = transfer.first();
    const bool read = first.op == IoOp::read;
    const std::uint64_t wanted = expected(transfer);
    std::uint64_t begin = 0;
    for (const IoRequest& part : transfer.parts) {
      const std::uint64_t size = part.bytes();
      const std::uint64_t arrived = std::min(size, moved - std::min(moved, begin));
      const std::uint64_t must = std::min(size, wanted - std::min(wanted, begin));
      IoCompletion completion{.tag = part.tag, .bytes = arrived, .status = {}};
      const std::string& name = own_.names[part.file];
      if (part.op == IoOp::flush && error != 0) {
        completion.status = fail(Code::device_failed, "{}: flush: {}", name, std::strerror(error));
      } else if (arrived < must && error != 0) {
        completion.status = fail(Code::device_failed, "{}: offset {}: {} of {} bytes: {}", name, part.offset,
                                 read ? "read" : "write", size, std::strerror(error));
      } else if (arrived < must) {
        completion.status = fail(Code::device_failed, "{}: offset {}: short {}, {} of {} bytes", name, part.offset,
                                 read ? "read" : "write", arrived, must);
      }
      finished_.push_back(std::move(completion));
      begin += size;
    }
    if (first.op != IoOp::flush) (read ? counters_.reads : counters_.writes) += transfer.parts.size();
    (read ? counters_.bytes_read : counters_.bytes_written) += moved;
    counters_.in_flight -= static_cast<std::uint32_t>(transfer.parts.size());
    const File& file = own_.files[first.file];
    if (read && own_.forget && !file.direct()) file.forget_cached(first.offset, transfer.bytes);
    give_back(index);
  }

  void give_back(std::uint32_t index) {
    Transfer& transfer = transfers_[index];
    transfer.parts.clear();
    transfer.bytes = transfer.done = transfer.from = transfer.pieces = 0;
    transfer.refusals = 0;
    free_.push_back(index);
    if (active() == 0) counters_.busy += clock_.now() - busy_since_;
  }

  std::size_t deliver(std::span<IoCompletion> out) {
    std::size_t count = 0;
    while (count < out.size() && !finished_.empty()) {
      out[count++] = std::move(finished_.front());
      finished_.pop_front();
    }
    outstanding_ -= count;
    return count;
  }

  Parts own_;
  const Clock& clock_;
  RequestQueue queue_;
  std::deque<IoRequest> again_;  // parts of a transfer that failed, before anything else and unmerged
  std::vector<Transfer> transfers_;
  std::vector<std::uint32_t> free_;  // numbers of transfers that are not in use
  std::deque<IoCompletion> finished_;
  std::uint64_t outstanding_ = 0;  // submitted and not yet delivered
  bool closing_ = false;
  std::atomic<bool> woken_{false};
  DeviceCounters counters_;
  Nanos busy_since_{0};
};

using OpenOne = std::function<Result<File>(std::size_t index, OpenMode mode)>;

// Says it once, whatever the number of files.
Result<std::vector<File>> open_files(std::size_t count, const FileDeviceOptions& options, const OpenOne& open) {
  std::vector<File> files;
  bool said = false;
  for (std::size_t i = 0; i < count; ++i) {
    OpenMode mode{.write = options.write, .create = options.create, .direct = options.direct != DirectIo::off};
    auto file = open(i, mode);
    if (!file && file.error().code == Code::rejected && options.direct == DirectIo::automatic) {
      const std::string reason = std::move(file.error().message);
      mode.direct = false;
      file = open(i, mode);
      if (file && options.report && !said) {
        options.report(reason + "; " + (options.write ? "going" : "reading") + " through the page cache");
        said = true;
      }
    }
    if (!file) return fail(std::move(file.error()));
    if (options.write && options.create_bytes > 0) {
      const auto bytes = file->size();
      if (!bytes) return fail(bytes.error());
      if (*bytes < options.create_bytes) {
        if (auto allocated = file->allocate(options.create_bytes); !allocated) return fail(allocated.error());
      }
    }
    files.push_back(std::move(*file));
  }
  return files;
}

Result<std::unique_ptr<IoEngine>> make_engine(const FileDeviceOptions& options, std::span<const File> files,
                                              std::span<const DrivePlacement> placements) {
  if (options.backend != IoBackend::threads) {
    auto ring = make_uring_engine(options.queue_depth_max, files, placements, options.wakeable);
    if (ring || options.backend == IoBackend::uring) return ring;
    if (options.report) options.report(ring.error().message + "; reading with a pool of threads");
  }
  return make_thread_engine(std::min(options.thread_count, options.queue_depth_max), files);
}

Status check_options(std::size_t count, const FileDeviceOptions& options) {
  if (count == 0) return fail(Code::invalid, "a device needs at least one file");
  if (options.queue_depth_max == 0 || options.queue_depth_max > depth_limit) {
    return fail(Code::invalid, "a queue depth of {} is not possible, 1 to {} are", options.queue_depth_max,
                depth_limit);
  }
  return {};
}

Result<std::unique_ptr<Device>> open_device(std::size_t count, const FileDeviceOptions& options, const Clock& clock,
                                            const OpenOne& open) {
  if (auto checked = check_options(count, options); !checked) return fail(std::move(checked.error()));
  auto files = open_files(count, options, open);
  if (!files) return fail(std::move(files.error()));
  return make_file_device(std::move(*files), options, clock);
}

}  // namespace

Result<std::unique_ptr<Device>> make_file_device(std::vector<File> files, const FileDeviceOptions& options,
                                                 const Clock& clock) {
  if (auto checked = check_options(files.size(), options); !checked) return fail(std::move(checked.error()));
  FileDevice::Parts parts;
  parts.files = std::move(files);
  DeviceFacts& facts = parts.facts;
  facts.alignment = least_alignment;
  facts.direct = facts.trims = true;
  for (const File& file : parts.files) {
    const auto bytes = file.size();
    if (!bytes) return fail(bytes.error());
    facts.file_bytes.push_back(*bytes);
    facts.alignment = std::max(facts.alignment, file.direct_alignment());
    facts.direct = facts.direct && file.direct();
    facts.trims = facts.trims && file.block_device();  // a hole in a file is space that others may take
    parts.names.push_back(file.path());
  }
  facts.queue_depth_max = options.queue_depth_max;
  facts.queue_max = options.queue_max;
  for (const File& file : parts.files)
    parts.placements.push_back(options.write ? probe_placement(file) : DrivePlacement{});
  auto engine = make_engine(options, parts.files, parts.placements);
  if (!engine) return fail(std::move(engine.error()));
  parts.engine = std::move(*engine);
  facts.engine = parts.engine->name();
  facts.name = fmt::format("{}{}, {}{}", facts.engine, facts.direct ? ", O_DIRECT" : "", parts.names[0],
                           parts.files.size() > 1 ? fmt::format(" and {} more", parts.files.size() - 1) : "");
  facts.placement = parts.placements.front().what;
  parts.writable = options.write;
  parts.forget = options.direct != DirectIo::off;
  parts.merge_bytes = options.merge_bytes;
  return std::make_unique<FileDevice>(std::move(parts), clock);
}

Result<std::unique_ptr<Device>> open_file_device(const FileDeviceOptions& options, const Clock& clock) {
  return open_device(options.paths.size(), options, clock,
                     [&](std::size_t index, OpenMode mode) { return File::open(options.paths[index], mode); });
}

Result<std::unique_ptr<Device>> open_file_device_fds(std::span<const OpenFile> files, const FileDeviceOptions& options,
                                                     const Clock& clock) {
  return open_device(files.size(), options, clock, [&](std::size_t index, OpenMode mode) -> Result<File> {
    auto file = File::reopen(files[index].fd, files[index].name, mode);
    if (file) return file;
    if (mode.direct) return fail(Code::rejected, "{}", file.error().message);  // whatever the reason: not direct, then
    return File::duplicate(files[index].fd, files[index].name);
  });
}

}  // namespace artesian
