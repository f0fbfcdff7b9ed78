// What gave way is discarded on a device where that costs nothing, and only when its wipe is durable.
#include <gtest/gtest.h>

#include <map>

#include "store/engine_rig_test.h"

namespace artesian {
namespace {

// Looks at what the engine asks of a device in memory. Requests are done when they are polled, in their order.
class Watched final : public Device {
 public:
  Watched(Device& behind, bool trims) : behind_(behind), facts_(behind.facts()) { facts_.trims = trims; }

  const DeviceFacts& facts() const override { return facts_; }
  DeviceCounters counters() const override { return behind_.counters(); }
  Status submit(std::span<const IoRequest> requests) override {
    for (const IoRequest& request : requests) note(request);
    return behind_.submit(requests);
  }
  std::size_t poll(std::span<IoCompletion> out) override {
    const std::size_t count = behind_.poll(out);
    for (const IoCompletion& done : out.first(count)) {
      const auto flush = flushes_.find(done.tag);
      if (flush == flushes_.end()) continue;
      durable_ = std::max(durable_, flush->second);
      flushes_.erase(flush);
    }
    return count;
  }
  std::size_t wait(std::span<IoCompletion> out, Nanos /*deadline*/) override { return poll(out); }
  bool register_memory(std::span<std::byte> /*memory*/) override { return false; }
  Status discard(FileIndex file, std::uint64_t offset, std::uint64_t bytes) override {
    ++discards;
    const std::uint64_t segment = segment_of(offset);
    EXPECT_EQ(offset, store_data_offset + segment * small_geometry.segment_bytes + store_page);
    EXPECT_EQ(bytes, small_geometry.segment_bytes - store_page);
    EXPECT_TRUE(wiped_.contains(segment)) << "segment " << segment << " is in use";
    EXPECT_LE(wiped_[segment], durable_) << "the wipe of segment " << segment << " may be undone";
    return behind_.discard(file, offset, bytes);
  }
  Status flush() override { return behind_.flush(); }

  std::uint64_t discards = 0;

 private:
  static std::uint64_t segment_of(std::uint64_t offset) {
    return (offset - store_data_offset) / small_geometry.segment_bytes;
  }
  void note(const IoRequest& request) {
    ++now_;
    if (request.op == IoOp::flush) flushes_[request.tag] = now_;
    if (request.op != IoOp::write || request.offset < store_data_offset) return;
    const std::uint64_t segment = segment_of(request.offset);
    const bool header = (request.offset - store_data_offset) % small_geometry.segment_bytes == 0;
    const auto& bytes = request.memory()[0];
    const bool zeros = std::ranges::all_of(bytes, [](std::byte one) { return one == std::byte{0}; });
    if (header && zeros) {
      wiped_[segment] = now_;
    } else {
      wiped_.erase(segment);
    }
  }

  Device& behind_;
  DeviceFacts facts_;
  std::uint64_t now_ = 0, durable_ = 0;             // in requests; of the last flush that is done
  std::map<std::uint64_t, std::uint64_t> wiped_;    // segments whose last write was a wipe, and when
  std::map<std::uint64_t, std::uint64_t> flushes_;  // by tag: under way
};

std::uint64_t discards_of(bool trims) {
  MemoryDevice memory(empty_files(1, 8));
  Watched device(memory, trims);
  StoreKind kind(false);
  EXPECT_TRUE(format_store(device, small_geometry, kind.identity(1)));
  ManualClock clock;
  constexpr std::uint64_t many = 300;
  std::uint64_t hits = 0;
  for (const bool again : {false, true}) {
    auto engine = Engine::open(device, clock, kind.settings());
    EXPECT_TRUE(engine);
    if (!engine) return 0;
    OneByOne one(**engine, (*engine)->open_namespace(some_fields()).value());
    if (!again) {
      for (std::uint64_t i = 0; i < many; ++i) EXPECT_EQ(one.put(i, 40'000), Outcome::stored) << i;
      EXPECT_GT((*engine)->stats().segments_reclaimed, 20U);
    }
    for (std::uint64_t i = 0; i < many; ++i) hits += one.get(i) == Outcome::hit ? 1 : 0;
    EXPECT_EQ(hits, (*engine)->stats().blocks * (again ? 2 : 1));
    EXPECT_TRUE((*engine)->flush());
  }
  return device.discards;
}

TEST(EngineDiscard, SegmentsThatGaveWayAreDiscardedOnceTheirWipeIsDurable) {
  EXPECT_GT(discards_of(true), 20U);
}

TEST(EngineDiscard, AFileKeepsItsSpace) {
  EXPECT_EQ(discards_of(false), 0U);
}

}  // namespace
}  // namespace artesian
