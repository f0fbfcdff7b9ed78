#include "bench/store_subjects.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>

#include "device/file_device.h"
#include "device/sweep.h"
#include "platform/file.h"
#include "platform/process.h"

namespace artesian::bench {
namespace {

using Key = std::array<std::byte, 16>;

Key key_of(std::uint64_t number) {
  Key key{};
  std::memcpy(key.data(), "block   ", 8);
  std::memcpy(key.data() + 8, &number, sizeof(number));
  return key;
}

double microseconds(Nanos time) {
  return static_cast<double>(time.count()) / 1e3;
}

std::string file_of(const std::string& folder, std::uint64_t number) {
  return fmt::format("{}/{:03x}/{:012x}", folder, number % 4096, number);
}

}  // namespace

Result<BlockPattern> BlockPattern::make(std::uint64_t block_bytes) {
  BlockPattern pattern;
  auto memory = Arena::reserve(align_up(block_bytes, page) + windows * page);
  if (!memory) return fail(std::move(memory.error()));
  pattern.memory_ = std::move(*memory);
  pattern.block_bytes_ = block_bytes;
  std::mt19937_64 random(block_bytes);
  for (std::size_t at = 0; at < pattern.memory_.size(); at += 8) {
    const std::uint64_t word = random();
    std::memcpy(pattern.memory_.data() + at, &word, sizeof(word));
  }
  return pattern;
}

bool BlockPattern::first_page_is(std::uint64_t number, std::span<const std::byte> bytes) const {
  const std::size_t size = std::min<std::size_t>(bytes.size(), page);
  return std::memcmp(of(number).data(), bytes.data(), size) == 0;
}

StoreSample Tally::sample() const {
  StoreSample sample;
  if (time.count() > 0) sample.bytes_per_second = static_cast<double>(bytes) * 1e9 / static_cast<double>(time.count());
  std::vector<double> sorted = latencies_us;
  std::ranges::sort(sorted);
  if (!sorted.empty()) sample.p99_us = sorted[std::min(sorted.size() - 1, sorted.size() * 99 / 100)];
  return sample;
}

namespace {

// A request that is under way, or was answered and is not looked at yet.
template <typename Item>
struct Slot {
  std::uint64_t number = 0;
  Key key{};
  Item item;
  std::span<std::byte> room;
  Nanos begun{0};
  bool done = true;
};

// All slots under way, as long as `next` fills in another item; `look` at each that was answered.
template <typename Item>
Status keep_busy(Store& store, NamespaceId ns, std::vector<Slot<Item>>& slots, Tally& tally,
                 const std::function<bool(Slot<Item>&)>& next, const std::function<Status(const Slot<Item>&)>& look,
                 const std::function<void()>& between) {
  for (std::size_t busy = 0;;) {
    for (Slot<Item>& slot : slots) {
      if (!slot.done) continue;
      if (slot.begun.count() != 0) {
        --busy;
        slot.begun = Nanos{0};
        if (auto looked = look(slot); !looked) return looked;
      }
      if (!next(slot)) continue;
      slot.begun = store.now();
      slot.done = false;
      ++busy;
      store.submit(ns, std::span(&slot.item, 1), {}, [&slot, &tally, &store] {
        slot.done = true;
        tally.latencies_us.push_back(microseconds(store.now() - slot.begun));
      });
    }
    if (busy == 0) return {};
    if (between) between();
    store.wait(store.now() + std::chrono::seconds(1));
  }
}

}  // namespace

Result<Tally> store_puts(Store& store, NamespaceId ns, const BlockPattern& pattern, std::uint64_t first,
                         std::uint64_t count, std::uint32_t depth) {
  Tally tally;
  std::vector<Slot<Put>> slots(depth);
  std::uint64_t number = first;
  const Nanos begin = store.now();
  const auto next = [&](Slot<Put>& slot) {
    if (number == first + count) return false;
    slot.key = key_of(number);
    slot.item = {.key = slot.key, .data = pattern.of(number)};
    ++number;
    return true;
  };
  const auto look = [&](const Slot<Put>& slot) -> Status {
    if (slot.item.outcome == Outcome::failed) return fail(Code::device_failed, "a put failed");
    if (slot.item.outcome != Outcome::stored) {
      ++tally.missing;
      return {};
    }
    tally.bytes += slot.item.data.size();
    ++tally.blocks;
    return {};
  };
  if (auto did = keep_busy<Put>(store, ns, slots, tally, next, look, {}); !did) return fail(std::move(did.error()));
  if (auto flushed = store.flush(); !flushed) return fail(std::move(flushed.error()));
  tally.time = store.now() - begin;
  return tally;
}

Result<Tally> store_gets(Store& store, NamespaceId ns, const BlockPattern& pattern, std::uint64_t block_bytes,
                         std::uint64_t first, std::uint64_t count, std::uint32_t depth, double seconds,
                         const std::function<void()>& between) {
  const std::uint64_t room_bytes = align_up(block_bytes, 4 * KiB);
  auto memory = Arena::reserve(room_bytes * depth);
  if (!memory) return fail(std::move(memory.error()));
  std::ranges::fill(memory->span(), std::byte{0});
  Tally tally;
  std::vector<Slot<Get>> slots(depth);
  for (std::size_t i = 0; i < depth; ++i) slots[i].room = memory->span().subspan(i * room_bytes, block_bytes);
  std::mt19937_64 random(count + depth);
  const Nanos begin = store.now(), end = begin + Nanos(static_cast<std::int64_t>(seconds * 1e9));
  const auto next = [&](Slot<Get>& slot) {
    if (store.now() >= end) return false;
    slot.number = first + random() % count;
    slot.key = key_of(slot.number);
    slot.item = {.key = slot.key, .buffer = slot.room};
    return true;
  };
  const auto look = [&](const Slot<Get>& slot) -> Status {
    if (slot.item.outcome == Outcome::failed) return fail(Code::device_failed, "a get failed");
    if (slot.item.outcome != Outcome::hit) {
      ++tally.missing;
      return {};
    }
    if (slot.item.bytes != block_bytes || !pattern.first_page_is(slot.number, slot.room)) ++tally.wrong;
    tally.bytes += slot.item.bytes;
    ++tally.blocks;
    return {};
  };
  if (auto did = keep_busy<Get>(store, ns, slots, tally, next, look, between); !did) {
    return fail(std::move(did.error()));
  }
  tally.time = store.now() - begin;
  return tally;
}

std::uint64_t store_pins(Store& store, NamespaceId ns, std::uint64_t count) {
  std::uint64_t pinned = 0;
  for (std::uint64_t number = 0; number < count; ++number) {
    const Key key = key_of(number);
    Probe item{.key = key};
    store.pin(ns, std::span(&item, 1));
    if (item.outcome == Outcome::hit) ++pinned;
  }
  return pinned;
}

Result<Tally> on_threads(std::uint32_t workers, Executor& executor,
                         const std::function<Status(std::uint32_t, Tally&)>& work) {
  std::mutex mutex;
  std::condition_variable ended;
  std::uint32_t left = workers;
  Tally sum;
  Status status;
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    executor.post([&, worker] {
      Tally own;
      Status did = work(worker, own);
      const std::lock_guard lock(mutex);
      sum.bytes += own.bytes;
      sum.blocks += own.blocks;
      sum.wrong += own.wrong;
      sum.missing += own.missing;
      sum.latencies_us.insert(sum.latencies_us.end(), own.latencies_us.begin(), own.latencies_us.end());
      if (!did) status = std::move(did);
      if (--left == 0) ended.notify_one();
    });
  }
  std::unique_lock lock(mutex);
  ended.wait(lock, [&] { return left == 0; });
  if (!status) return fail(std::move(status.error()));
  return sum;
}

namespace {

Status put_file(const std::string& folder, std::uint64_t number, std::span<const std::byte> bytes) {
  const std::string name = file_of(folder, number), fresh = name + ".tmp";
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(name).parent_path(), error);
  auto file = File::open(fresh, {.write = true, .create = true, .direct = true});
  if (!file) return fail(std::move(file.error()));
  if (auto written = file->write(0, bytes); !written) return written;
  if (auto synced = file->sync_data(); !synced) return synced;
  std::filesystem::rename(fresh, name, error);
  if (error) return fail(Code::device_failed, "{}: {}", name, error.message());
  return {};
}

}  // namespace

Result<Tally> file_puts(const std::string& folder, const BlockPattern& pattern, std::uint64_t count,
                        std::uint32_t depth, Executor& executor, const Clock& clock) {
  std::atomic<std::uint64_t> next = 0;
  const Nanos begin = clock.now();
  auto tally = on_threads(depth, executor, [&](std::uint32_t, Tally& own) -> Status {
    for (;;) {
      const std::uint64_t number = next++;
      if (number >= count) return {};
      const Nanos begun = clock.now();
      if (auto did = put_file(folder, number, pattern.of(number)); !did) return did;
      own.latencies_us.push_back(microseconds(clock.now() - begun));
      own.bytes += pattern.of(number).size();
      ++own.blocks;
    }
  });
  if (tally) tally->time = clock.now() - begin;
  return tally;
}

Result<Tally> file_gets(const std::string& folder, const BlockPattern& pattern, std::uint64_t block_bytes,
                        std::uint64_t count, std::uint32_t depth, double seconds, Executor& executor,
                        const Clock& clock) {
  const Nanos begin = clock.now(), end = begin + Nanos(static_cast<std::int64_t>(seconds * 1e9));
  auto tally = on_threads(depth, executor, [&](std::uint32_t worker, Tally& own) -> Status {
    auto memory = Arena::reserve(align_up(block_bytes, 4 * KiB));
    if (!memory) return fail(std::move(memory.error()));
    const auto room = memory->span().first(block_bytes);
    std::mt19937_64 random(worker);
    while (clock.now() < end) {
      const std::uint64_t number = random() % count;
      const Nanos begun = clock.now();
      const auto file = File::open(file_of(folder, number), {.direct = true});
      if (!file) return fail(file.error());
      if (auto read = file->read(0, room); !read) return read;
      own.latencies_us.push_back(microseconds(clock.now() - begun));
      if (!pattern.first_page_is(number, room)) ++own.wrong;
      own.bytes += block_bytes;
      ++own.blocks;
    }
    return {};
  });
  if (tally) tally->time = clock.now() - begin;
  return tally;
}

namespace {

Result<StoreSample> by_fio(const DriveRun& run, const Clock& clock) {
  Command command{.path = run.fio};
  command.arguments = {"fio",
                       "--name=drive",
                       "--filename=" + run.file,
                       run.write ? "--rw=write" : "--rw=randread",
                       "--direct=1",
                       fmt::format("--bs={}", run.request_bytes),
                       fmt::format("--iodepth={}", run.depth),
                       "--ioengine=io_uring",
                       "--time_based",
                       fmt::format("--runtime={}ms", static_cast<int>(run.seconds * 1e3)),
                       "--randrepeat=0",
                       "--end_fsync=1",
                       "--output-format=json"};
  if (!run.write) command.arguments.push_back("--readonly");
  const auto ran = run_captured(command, clock, {});
  if (!ran) return fail(ran.error());
  const auto report = nlohmann::json::parse(ran->out, nullptr, false);
  if (ran->exit_code != 0 || report.is_discarded() || !report.contains("jobs")) {
    return fail(Code::rejected, "fio: exit code {}: {}", ran->exit_code, ran->err.substr(0, 200));
  }
  const auto& job = report["jobs"][0];
  const auto& way = job[run.write ? "write" : "read"];
  StoreSample sample{.bytes_per_second = way.value("bw_bytes", 0.0)};
  const double requests = way.value("total_ios", 0.0), percent = job.value("usr_cpu", 0.0) + job.value("sys_cpu", 0.0);
  if (requests > 0) sample.cpu_us = percent / 100 * job.value("job_runtime", 0.0) * 1e3 / requests;
  const auto& latency = way["clat_ns"];
  if (latency.contains("percentile")) sample.p99_us = latency["percentile"].value("99.000000", 0.0) / 1e3;
  return sample;
}

}  // namespace

Result<PeerSample> peer_run(const PeerRun& run, const Clock& clock) {
  const std::string name = std::filesystem::path(run.command.back()).filename();
  Command command{.path = run.command.front(), .arguments = run.command};
  for (std::string argument : {std::string(run.put ? "put" : "get"), run.folder, std::to_string(run.block_bytes),
                               std::to_string(run.count), std::to_string(run.depth), std::to_string(run.seconds)}) {
    command.arguments.push_back(std::move(argument));
  }
  const auto ran = run_captured(command, clock, {});
  if (!ran) return fail(ran.error());
  const auto said = nlohmann::json::parse(ran->out, nullptr, false);
  if (ran->exit_code != 0 || !said.is_object()) {
    // What it says last is why.
    const std::string why = ran->err.substr(ran->err.size() - std::min<std::size_t>(ran->err.size(), 300));
    return fail(Code::rejected, "{}: exit code {}: {}", name, ran->exit_code, why);
  }
  const double seconds = said.value("seconds", 0.0);
  return PeerSample{.sample = {.bytes_per_second = seconds > 0 ? said.value("bytes", 0.0) / seconds : 0,
                               .p99_us = said.value("p99_us", 0.0)},
                    .wrong = said.value("wrong", std::uint64_t{0}),
                    .missing = said.value("missing", std::uint64_t{0})};
}

Result<StoreSample> drive_alone(const DriveRun& run, const Clock& clock) {
  if (!run.fio.empty()) return by_fio(run, clock);
  FileDeviceOptions device_options{.paths = {run.file}, .write = run.write, .queue_depth_max = 64, .merge_bytes = 0};
  auto device = open_file_device(device_options, clock);
  if (!device) return fail(std::move(device.error()));
  SweepOptions sweep{.read = !run.write, .write = run.write};
  sweep.request_bytes = {run.request_bytes};
  sweep.depths = {run.depth};
  sweep.time_per_point = Nanos(static_cast<std::int64_t>(run.seconds * 1e9));
  sweep.huge_pages = sweep.registered = false;  // as callers of a store have them
  const auto points = sweep_device(**device, clock, sweep);
  if (!points) return fail(points.error());
  return StoreSample{.bytes_per_second = points->front().bytes_per_second, .p99_us = points->front().p99_us};
}

}  // namespace artesian::bench
