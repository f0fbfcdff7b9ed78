#include "bench/store_measure.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <random>

#include "base/crc32c.h"
#include "bench/scratch_folder.h"
#include "bench/store_subjects.h"
#include "platform/arena.h"
#include "platform/file.h"
#include "platform/thread_executor.h"
#include "store/store_files.h"

namespace artesian::bench {
namespace {

namespace fs = std::filesystem;

double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

// Of one block that lies in no cache, as one that the drive has just written to memory: 128 KiB take 15 us here, and 2
// when they are summed again and again.
class ChecksumTime {
 public:
  Result<double> us(std::uint64_t block_bytes) {
    if (memory_.size() == 0) {
      auto memory = Arena::reserve(memory_bytes);
      if (!memory) return fail(std::move(memory.error()));
      memory_ = std::move(*memory);
      std::ranges::fill(memory_.span(), std::byte{1});
    }
    const std::uint64_t places = memory_bytes / block_bytes, turns = std::max<std::uint64_t>(16, places / 8);
    std::mt19937_64 random(block_bytes);
    std::uint32_t sum = 0;
    const double before = cpu_seconds();
    for (std::uint64_t i = 0; i < turns; ++i) {
      sum = crc32c(memory_.span().subspan(random() % places * block_bytes, block_bytes), sum);
    }
    const volatile std::uint32_t kept = sum;  // it is not left out
    static_cast<void>(kept);
    return (cpu_seconds() - before) * 1e6 / static_cast<double>(turns);
  }

 private:
  static constexpr std::uint64_t memory_bytes = 256 * MiB;
  Arena memory_;
};

class Measurement {
 public:
  Measurement(const StoreBenchOptions& options, const Clock& clock, std::string folder)
      : options_(options), clock_(clock), folder_(std::move(folder)) {
    // A size is one put of everything and, for each depth, reads.
    steps_ = options.block_bytes.size() * options.rounds * (1 + options.depths.size()) + 1;
  }

  Status all(StoreBenchReport& report) {
    for (const std::uint64_t bytes : options_.block_bytes) {
      if (auto done = one_size(bytes, report); !done) return done;
    }
    return beside_puts(report);
  }

 private:
  StoreFilesOptions files() const {
    StoreFilesOptions files{.paths = {{.path = folder_ + "/store", .bytes = options_.bytes}}};
    files.key_file = options_.key_file;
    files.engine.memory_bytes = 0;  // what is measured is the flash
    files.engine.report = options_.report;
    return files;
  }
  Result<std::shared_ptr<Store>> open(bool fresh, NamespaceId& ns) {
    if (fresh) {
      if (auto made = create_store(files(), true); !made) return fail(std::move(made.error()));
    }
    auto store = options_.open ? options_.open(files()) : embedded(files());
    if (!store) return store;
    const auto id = (*store)->open_namespace({.model = "bench", .weights = "bench"});
    if (!id) return fail(id.error());
    ns = *id;
    return store;
  }

  static Result<std::shared_ptr<Store>> embedded(const StoreFilesOptions& files) {
    auto store = open_store(files);
    if (!store) return fail(std::move(store.error()));
    return std::shared_ptr<Store>(std::move(*store));
  }

  void step(std::string_view what) {
    if (options_.progress) options_.progress(static_cast<double>(done_) / static_cast<double>(steps_), what);
    ++done_;
  }

  Status one_size(std::uint64_t bytes, StoreBenchReport& report) {
    auto pattern = BlockPattern::make(bytes);
    if (!pattern) return fail(std::move(pattern.error()));
    // Two thirds of the store, so that all of them are there; puts go on to one and a half of it.
    const std::uint64_t there = options_.bytes * 2 / 3 / (align_up(bytes, 4 * KiB) + 4 * KiB);
    if (there == 0)
      return fail(Code::invalid, "a store of {} has no room for blocks of {}", format_size(options_.bytes),
                  format_size(bytes));
    StoreCase put{.put = true, .block_bytes = bytes, .depth = put_depth};
    put.peers.resize(options_.peers.size());
    for (unsigned round = 0; round < options_.rounds; ++round) {
      step(fmt::format("writing blocks of {}", format_size(bytes)));
      if (auto did = puts(*pattern, bytes, there, put, report); !did) return did;
    }
    report.cases.push_back(std::move(put));
    if (options_.files) {
      if (auto did = with_threads(
              [&](Executor& e) { return file_puts(folder_ + "/files", *pattern, there, put_depth, e, clock_); });
          !did) {
        return fail(std::move(did.error()));
      }
    }
    for (const std::uint32_t depth : options_.depths) {
      StoreCase get{.block_bytes = bytes, .depth = depth};
      get.peers.resize(options_.peers.size());
      for (unsigned round = 0; round < options_.rounds; ++round) {
        step(fmt::format("reading blocks of {} at depth {}", format_size(bytes), depth));
        if (auto did = gets(*pattern, bytes, there, get, report); !did) return did;
      }
      report.cases.push_back(std::move(get));
    }
    std::error_code error;
    fs::remove_all(folder_ + "/files", error);
    for (std::size_t peer = 0; peer < options_.peers.size(); ++peer) fs::remove_all(peer_folder(peer), error);
    return {};
  }

  std::string peer_folder(std::size_t peer) const { return fmt::format("{}/peer{}", folder_, peer); }

  // Puts are into an empty one; gets are of what was put last.
  Status peers(bool put, std::uint64_t count, StoreCase& into, StoreBenchReport& report) {
    for (std::size_t peer = 0; peer < options_.peers.size(); ++peer) {
      if (options_.peers[peer].command.empty()) continue;
      std::error_code error;
      if (put) fs::remove_all(peer_folder(peer), error);
      const auto ran = peer_run({.command = options_.peers[peer].command,
                                 .folder = peer_folder(peer),
                                 .put = put,
                                 .block_bytes = into.block_bytes,
                                 .count = count,
                                 .depth = into.depth,
                                 .seconds = options_.seconds},
                                clock_);
      if (!ran) return fail(ran.error());
      into.peers[peer].push_back(ran->sample);
      report.peers[peer].wrong += ran->wrong;
      report.peers[peer].missing += ran->missing;
    }
    return {};
  }

  // A store written one and a half times over, then the drive alone, then files.
  Status puts(const BlockPattern& pattern, std::uint64_t bytes, std::uint64_t there, StoreCase& into,
              StoreBenchReport& report) {
    NamespaceId ns = 0;
    {
      auto store = open(true, ns);
      if (!store) return fail(std::move(store.error()));
      auto tally = store_puts(**store, ns, pattern, there, there * 9 / 4, put_depth);
      if (!tally) return fail(std::move(tally.error()));
      report.reclaimed += (*store)->stats().segments_reclaimed;
      into.store.push_back(tally->sample());
      // What is read later: the last ones to come.
      auto last = store_puts(**store, ns, pattern, 0, there, put_depth);
      if (!last) return fail(std::move(last.error()));
      report.missing += tally->missing + last->missing;
    }
    const DriveRun run{.file = folder_ + "/drive",
                       .fio = options_.fio,
                       .write = true,
                       .request_bytes = 1 * MiB,
                       .depth = put_depth,
                       .seconds = options_.seconds};
    if (auto made = drive_file(); !made) return made;
    auto drive = drive_alone(run, clock_);
    if (!drive) return fail(std::move(drive.error()));
    into.drive.push_back(*drive);
    if (options_.files) {
      std::error_code error;
      fs::remove_all(folder_ + "/files", error);
      auto tally = with_threads([&](Executor& e) {
        return file_puts(folder_ + "/files", pattern,
                         std::min<std::uint64_t>(there, std::max<std::uint64_t>(64, 256 * MiB / bytes)), put_depth, e,
                         clock_);
      });
      if (!tally) return fail(std::move(tally.error()));
      into.files.push_back(tally->sample());
    }
    return peers(true, there, into, report);
  }

  Status gets(const BlockPattern& pattern, std::uint64_t bytes, std::uint64_t there, StoreCase& into,
              StoreBenchReport& report) {
    NamespaceId ns = 0;
    {
      auto store = open(false, ns);
      if (!store) return fail(std::move(store.error()));
      const double before = cpu_seconds();
      auto tally = store_gets(**store, ns, pattern, bytes, 0, there, into.depth, options_.seconds);
      if (!tally) return fail(std::move(tally.error()));
      const double cpu_us =
          (cpu_seconds() - before) * 1e6 / static_cast<double>(std::max<std::uint64_t>(1, tally->blocks));
      const auto checksum_us = checksum_.us(bytes);
      if (!checksum_us) return fail(checksum_us.error());
      into.checksum_us = *checksum_us;
      into.store.push_back(tally->sample());
      into.store.back().cpu_us = cpu_us;
      report.wrong += tally->wrong;
      report.missing += tally->missing;
    }
    const DriveRun run{.file = folder_ + "/store",
                       .fio = options_.fio,
                       .request_bytes = align_up(bytes, 4 * KiB) + 4 * KiB,
                       .depth = into.depth,
                       .seconds = options_.seconds};
    auto drive = drive_alone(run, clock_);
    if (!drive) return fail(std::move(drive.error()));
    // Headers are no use to anybody, but the drive moved them.
    drive->bytes_per_second *= static_cast<double>(bytes) / static_cast<double>(run.request_bytes);
    into.drive.push_back(*drive);
    if (options_.files) {
      auto files_tally = with_threads([&](Executor& e) {
        return file_gets(folder_ + "/files", pattern, bytes, there, into.depth, options_.seconds, e, clock_);
      });
      if (!files_tally) return fail(std::move(files_tally.error()));
      into.files.push_back(files_tally->sample());
      report.files_wrong += files_tally->wrong;
    }
    return peers(false, there, into, report);
  }

  // Reads of 128 KiB alone, and while puts go on without end.
  Status beside_puts(StoreBenchReport& report) {
    constexpr std::uint64_t bytes = 128 * KiB;
    step("reading beside writing");
    auto pattern = BlockPattern::make(bytes);
    if (!pattern) return fail(std::move(pattern.error()));
    const std::uint64_t there = options_.bytes / 8 / (bytes + 4 * KiB);  // pinned, so that they stay
    NamespaceId ns = 0;
    auto store = open(true, ns);
    if (!store) return fail(std::move(store.error()));
    if (auto put = store_puts(**store, ns, *pattern, 0, there, put_depth); !put) return fail(std::move(put.error()));
    if (auto pinned = store_pins(**store, ns, there); pinned != there) {
      return fail(Code::rejected, "only {} of {} blocks can be pinned", pinned, there);
    }
    auto idle = store_gets(**store, ns, *pattern, bytes, 0, there, 4, options_.seconds);
    if (!idle) return fail(std::move(idle.error()));
    report.get_p99_idle_us = idle->sample().p99_us;
    // Puts under way all the while, of blocks that nobody has; as many as are answered are put again.
    struct Slot {
      std::array<std::byte, 16> key{};
      Put item;
      bool done = true;
    };
    std::vector<Slot> slots(put_depth);
    std::uint64_t next = 1ULL << 32;
    const auto keep_putting = [&] {
      for (Slot& slot : slots) {
        if (!slot.done) continue;
        std::memcpy(slot.key.data(), &++next, sizeof(next));
        slot.item = {.key = slot.key, .data = pattern->of(next)};
        slot.done = false;
        (*store)->submit(ns, std::span(&slot.item, 1), {}, [&slot] { slot.done = true; });
      }
    };
    auto beside = store_gets(**store, ns, *pattern, bytes, 0, there, 4, options_.seconds, keep_putting);
    while (std::ranges::any_of(slots, [](const Slot& slot) { return !slot.done; }))
      (*store)->wait((*store)->now() + std::chrono::seconds(1));
    if (!beside) return fail(std::move(beside.error()));
    report.get_p99_beside_us = beside->sample().p99_us;
    report.wrong += beside->wrong;
    report.missing += beside->missing;
    return {};
  }

  Status drive_file() {
    const std::string name = folder_ + "/drive";
    if (fs::exists(name)) return {};
    auto file = File::open(name, {.write = true, .create = true});
    if (!file) return fail(std::move(file.error()));
    return file->allocate(std::min<std::uint64_t>(options_.bytes, 1 * GiB));
  }

  template <typename Work>
  Result<Tally> with_threads(Work work) {
    auto executor = ThreadExecutor::open(32);
    if (!executor) return fail(std::move(executor.error()));
    return work(**executor);
  }

  static constexpr std::uint32_t put_depth = 16;
  const StoreBenchOptions& options_;
  const Clock& clock_;
  std::string folder_;
  std::size_t steps_ = 0, done_ = 0;
  ChecksumTime checksum_;
};

}  // namespace

Result<StoreBenchReport> measure_store(const StoreBenchOptions& options, const Clock& clock) {
  auto scratch = ScratchFolder::make(options.folder);
  if (!scratch) return fail(std::move(scratch.error()));
  StoreBenchReport report{.drive_by = options.fio.empty() ? "our own loop" : "fio"};
  for (const StorePeer& peer : options.peers) report.peers.push_back({.name = peer.name});
  Measurement measurement(options, clock, scratch->path());
  if (auto done = measurement.all(report); !done) return fail(std::move(done.error()));
  return report;
}

}  // namespace artesian::bench
