#include "sim/store_on_nand.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "base/units.h"
#include "nand/nand_device.h"
#include "platform/arena.h"
#include "sim/store_identity.h"
#include "store/engine.h"

namespace artesian::sim {
namespace {

using nand::NandDevice;
using nand::Random;

constexpr std::uint64_t overwrite_bytes = 4096;
constexpr std::uint64_t overwrite_tag = UINT64_MAX;
constexpr FileIndex region_file = 1;

// The first file of a drive for the store, while its second takes as many bytes of overwrites as belong to what is
// written to the first.
class SharedDrive final : public Device {
 public:
  SharedDrive(NandDevice& drive, Arena memory, double share, std::uint64_t seed)
      : drive_(drive), memory_(std::move(memory)), share_(share), random_(seed), facts_(drive.facts()) {
    facts_.file_bytes.resize(1);
  }

  const DeviceFacts& facts() const override { return facts_; }
  DeviceCounters counters() const override { return drive_.counters(); }
  Status submit(std::span<const IoRequest> requests) override {
    if (auto submitted = drive_.submit(requests); !submitted) return submitted;
    for (const IoRequest& request : requests) {
      if (request.op == IoOp::write) owed_ += static_cast<double>(request.bytes()) * share_ / (1 - share_);
    }
    return overwrite();
  }
  std::size_t poll(std::span<IoCompletion> out) override { return kept(out.first(drive_.poll(out))); }
  std::size_t wait(std::span<IoCompletion> out, Nanos deadline) override {
    while (true) {
      const std::size_t got = drive_.wait(out, deadline);
      const std::size_t mine = kept(out.first(got));
      if (mine > 0 || got == 0) return mine;
    }
  }
  bool register_memory(std::span<std::byte> /*memory*/) override { return false; }
  Status discard(FileIndex file, std::uint64_t offset, std::uint64_t bytes) override {
    return drive_.discard(file, offset, bytes);
  }
  Status flush() override { return drive_.flush(); }
  bool failed() const { return failed_; }

 private:
  Status overwrite() {
    while (owed_ >= static_cast<double>(overwrite_bytes)) {
      owed_ -= static_cast<double>(overwrite_bytes);
      const std::uint64_t slots = drive_.facts().file_bytes[region_file] / overwrite_bytes;
      const IoRequest request{.op = IoOp::write,
                              .io_class = IoClass::write,
                              .file = region_file,
                              .offset = random_.below(slots) * overwrite_bytes,
                              .buffer = memory_.span(),
                              .tag = overwrite_tag};
      if (auto submitted = drive_.submit(std::span(&request, 1)); !submitted) return submitted;
    }
    return {};
  }

  // What is the store's of these goes to the front.
  std::size_t kept(std::span<IoCompletion> out) {
    const auto rest = std::ranges::stable_partition(out, [this](const IoCompletion& done) {
      if (done.tag != overwrite_tag) return true;
      failed_ = failed_ || !done.status;
      return false;
    });
    return out.size() - rest.size();
  }

  NandDevice& drive_;
  Arena memory_;
  double share_, owed_ = 0;
  Random random_;
  DeviceFacts facts_;
  bool failed_ = false;
};

// Blocks whose bytes tell whose they are.
class Blocks {
 public:
  Blocks(Store& store, NamespaceId ns, const StoreLoad& load, Arena memory)
      : store_(store), ns_(ns), load_(load), memory_(std::move(memory)), random_(load.seed) {}

  // Puts new blocks of `bytes` in all; now and then an earlier one is read and compared.
  Status put(std::uint64_t bytes) {
    for (const std::uint64_t end = count_ + bytes / load_.block_bytes; count_ < end; ++count_) {
      nand::generate(nand::seed_word(count_), 0, data());
      Put item{.key = key(count_), .data = data()};
      item.hints.lifetime = static_cast<std::uint8_t>(random_.below(load_.lifetimes));
      store_.put(ns_, std::span(&item, 1));
      if (item.outcome == Outcome::failed)
        return fail(Code::device_failed, "block {}: the drive takes no more", count_);
      if (count_ % 8 != 7) continue;
      if (auto checked = check(count_ - random_.below(std::min<std::uint64_t>(count_, 512))); !checked) return checked;
    }
    return {};
  }
  std::uint64_t checked() const { return checked_; }

 private:
  std::span<std::byte> data() { return memory_.span().first(load_.block_bytes); }
  std::span<const std::byte> key(std::uint64_t number) {
    key_ = number;
    return std::as_bytes(std::span(&key_, 1));
  }
  Status check(std::uint64_t number) {
    Get item{.key = key(number), .buffer = data()};
    store_.get(ns_, std::span(&item, 1));
    if (item.outcome == Outcome::miss) return {};  // evicted
    if (item.outcome != Outcome::hit) return fail(Code::corrupt, "block {}: {}", number, outcome_name(item.outcome));
    if (!nand::is_generated(nand::seed_word(number), data()))
      return fail(Code::corrupt, "block {} came back with other bytes", number);
    ++checked_;
    return {};
  }

  Store& store_;
  NamespaceId ns_;
  StoreLoad load_;
  Arena memory_;
  Random random_;
  std::uint64_t key_ = 0, count_ = 0, checked_ = 0;
};

double mean_of_last(std::span<const double> values, std::size_t count) {
  const auto last = values.last(std::min(values.size(), count));
  return std::accumulate(last.begin(), last.end(), 0.0) / static_cast<double>(last.size());
}

bool has_settled(std::span<const double> windows, const StoreLoad& load) {
  if (windows.size() < 2UL * load.windows) return false;
  const auto before = windows.first(windows.size() - load.windows);
  return std::abs(mean_of_last(windows, load.windows) - mean_of_last(before, load.windows)) <= load.settled;
}

}  // namespace

Result<StoreRun> run_store_on_nand(const nand::Profile& profile, const StoreLoad& load) {
  const std::uint64_t unit = std::max<std::uint64_t>(profile.map_unit_bytes, overwrite_bytes);
  const auto region =
      align_up(static_cast<std::uint64_t>(static_cast<double>(profile.capacity_bytes) * load.region_share), unit);
  const std::uint64_t store_bytes = align_down(profile.capacity_bytes - region, unit);
  ManualClock clock;
  auto drive = NandDevice::open(profile, {store_bytes, region}, clock, {.queue_max = 1U << 20, .seed = load.seed});
  if (!drive) return fail(drive.error());
  auto page = Arena::reserve(overwrite_bytes);
  auto memory = Arena::reserve(load.block_bytes);
  if (!page || !memory) return fail(Code::device_failed, "no memory for blocks of {}", format_size(load.block_bytes));
  nand::Drive& inside = (*drive)->drive();
  inside.fill(store_bytes / profile.map_unit_bytes, region / profile.map_unit_bytes);
  nand::generate(nand::seed_word(UINT64_MAX), 0, page->span());
  SharedDrive shared(**drive, std::move(*page), load.region_writes, load.seed + 1);
  // A segment is a reclaim unit.
  const std::uint64_t segment = align_up(profile.superblock_bytes(), 64 * KiB);
  const StoreGeometry geometry{.segment_bytes = segment, .block_bytes_max = load.block_bytes};
  if (auto formatted = format_store(shared, geometry, store_identity(load.seed)); !formatted)
    return fail(formatted.error());
  auto engine = Engine::open(shared, clock, {});
  if (!engine) return fail(engine.error());
  auto ns = (*engine)->open_namespace({.model = "sim", .weights = "sim", .block_tokens = 16});
  if (!ns) return fail(ns.error());
  Blocks blocks(**engine, *ns, load, std::move(*memory));
  const auto filling = static_cast<std::uint64_t>(static_cast<double>(store_bytes) * load.fill_writes);
  if (auto put = blocks.put(filling); !put) return fail(put.error());
  StoreRun run;
  const std::uint64_t carried = (*engine)->stats().bytes_carried;
  const auto window =
      static_cast<std::uint64_t>(static_cast<double>(profile.capacity_bytes) * (1 - load.region_writes));
  while (!run.settled && run.window_wa.size() < load.windows_max) {
    inside.reset_counters();
    if (auto put = blocks.put(window); !put) return fail(put.error());
    const nand::DriveCounters counters = inside.counters();
    run.window_wa.push_back(counters.write_amplification());
    run.host_written_bytes += counters.host_written_bytes;
    run.trimmed_bytes += counters.trimmed_bytes;
    run.settled = has_settled(run.window_wa, load);
  }
  run.write_amplification = mean_of_last(run.window_wa, 2UL * load.windows);
  run.store = (*engine)->stats();
  run.carried_bytes = run.store.bytes_carried - carried;
  run.blocks_checked = blocks.checked();
  run.digest = inside.digest();
  run.worn_out = inside.worn_out();
  return run;
}

}  // namespace artesian::sim
