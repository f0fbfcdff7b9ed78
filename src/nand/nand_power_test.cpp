// Power is cut at any moment of a run of random writes, flushes and discards: what was promised is there, whole.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "base/units.h"
#include "nand/nand_device.h"
#include "platform/arena.h"

namespace artesian::nand {
namespace {

constexpr std::uint64_t block = 4096;

// `processor`: with compression, stripes and tiering by heat besides.
Profile small(bool protects, bool processor) {
  Profile p;
  p.name = p.title = "small";
  p.channels = 2;
  p.dies_per_channel = 2;
  p.planes_per_die = 2;
  p.read_lanes_per_die = 2;
  p.blocks_per_plane = 32;
  p.wordlines_per_block = 4;
  p.bits_per_cell = 2;
  p.read_us = {40, 45};
  p.program_us = 600;
  p.page_bytes = 8192;
  p.map_unit_bytes = 8192;  // twice a block: writes are merged
  p.capacity_bytes = p.physical_bytes() * 6 / 10 / 8192 * 8192;
  p.collect_below = 3;
  p.buffer_bytes = 48 * 8192;
  p.power_loss_protection = protects;
  p.wear_spread = 0.002;
  if (processor) {
    p.compress_grain = 1024;
    p.stripe_dies = 2;
    p.pslc_superblocks = 3;
    p.tiering = Tiering::heat;
  }
  return p;
}

// What may be read of a block: the version last promised, any written since, nothing if it was discarded since.
struct Block {
  std::uint64_t promised = 0;
  std::uint64_t discarded = 0;  // counted as versions are
  std::set<std::uint64_t> since;
};

class PowerCut {
 public:
  PowerCut(bool protects, bool processor, std::uint64_t seed)
      : protected_(protects),
        profile_(small(protects, processor)),
        random_(seed),
        memory_(std::move(*Arena::reserve(64 * block))) {
    blocks_.resize(profile_.capacity_bytes / block);
    auto device = NandDevice::open(profile_, {profile_.capacity_bytes}, clock_, {.files = {{.compress = 2}}});
    EXPECT_TRUE(device) << device.error().message;
    device_ = std::move(*device);
  }

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      const std::uint64_t dice = random_.below(100);
      if (dice < 88) {
        write();
      } else if (dice < 90) {
        discard();
      } else if (dice < 93) {
        flush();
      } else {
        reap(clock_.now() + Nanos(static_cast<std::int64_t>(random_.below(2'000'000))));
      }
    }
  }

  void cut_and_check() {
    clock_.advance(Nanos(static_cast<std::int64_t>(random_.below(1'500'000))));
    poll();
    device_->cut_power();
    in_flight_.clear();
    completed_.clear();
    for (std::uint64_t i = 0; i < blocks_.size() && !testing::Test::HasFailure(); ++i) {
      const std::uint64_t version = read(i);
      Block& known = blocks_[i];
      const bool empty = version == 0 && known.discarded > 0;
      EXPECT_TRUE(version == known.promised || known.since.contains(version) || empty)
          << "block " << i << " has version " << version << ", promised was " << known.promised;
      known = {.promised = version, .discarded = 0, .since = {}};  // what is there now stays
    }
  }

 private:
  struct InFlight {
    std::uint64_t first, count, version;
  };

  void write() {
    while (in_flight_.size() >= 16 && !testing::Test::HasFailure()) reap(Nanos::max());
    const std::uint64_t count = 1 + random_.below(4);
    const std::uint64_t first = random_.below(blocks_.size() - count);
    const std::uint64_t version = ++version_;
    // No two writes to one place at a time: their order is nobody's. And a buffer each.
    for (const auto& [tag, other] : in_flight_) {
      if (other.first < first + count && first < other.first + other.count) return;
      if (tag % 16 == version % 16) return;
    }
    std::byte* data = memory_.data() + version % 16 * 4 * block;
    for (std::uint64_t i = 0; i < count; ++i) stamp(data + i * block, first + i, version);
    const IoRequest request{.op = IoOp::write,
                            .io_class = IoClass::write,
                            .offset = first * block,
                            .buffer = std::span(data, count * block),
                            .tag = version};
    ASSERT_TRUE(device_->submit(std::span(&request, 1)));
    in_flight_[version] = {first, count, version};
    for (std::uint64_t i = first; i < first + count; ++i) blocks_[i].since.insert(version);
  }

  // What was discarded may be as it was or empty, until it is written again.
  void discard() {
    const std::uint64_t first = random_.below(blocks_.size() - 8);
    for (const auto& [tag, other] : in_flight_) {
      if (other.first < first + 8 && first < other.first + other.count) return;
    }
    ASSERT_TRUE(device_->discard(0, first * block, 8 * block));
    ++version_;
    for (std::uint64_t i = first; i < first + 8; ++i) blocks_[i].discarded = version_;
  }

  void reap(Nanos deadline) {
    std::array<IoCompletion, 16> out;
    const std::size_t count = device_->wait(out, deadline);
    ASSERT_TRUE(count > 0 || deadline != Nanos::max()) << "the drive came to a stop";
    done(out, count);
  }
  void poll() {
    std::array<IoCompletion, 64> out;
    done(out, device_->poll(out));
  }

  void done(std::span<IoCompletion> out, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_TRUE(out[i].status) << out[i].status.error().message;
      const InFlight write = in_flight_.at(out[i].tag);
      in_flight_.erase(out[i].tag);
      for (std::uint64_t b = write.first; b < write.first + write.count; ++b) {
        completed_[b] = write.version;
        if (protected_) promise(b, write.version);
      }
    }
  }

  void flush() {
    const auto before = completed_;
    ASSERT_TRUE(device_->flush());
    for (const auto& [b, version] : before) promise(b, version);
    completed_.clear();
    poll();
  }

  void promise(std::uint64_t b, std::uint64_t version) {
    Block& known = blocks_[b];
    known.promised = version;
    if (known.discarded < version) known.discarded = 0;
    std::erase_if(known.since, [&](std::uint64_t other) { return other <= version; });
  }

  static void stamp(std::byte* data, std::uint64_t index, std::uint64_t version) {
    for (std::uint64_t at = 0; at < block; at += 16) {
      std::memcpy(data + at, &index, 8);
      std::memcpy(data + at + 8, &version, 8);
    }
  }

  std::uint64_t read(std::uint64_t index) {
    const IoRequest request{.offset = index * block, .buffer = memory_.span().first(block), .tag = 1};
    EXPECT_TRUE(device_->submit(std::span(&request, 1)));
    std::array<IoCompletion, 1> out;
    EXPECT_EQ(device_->wait(out, Nanos::max()), 1U);
    std::uint64_t found = 0, version = 0;
    std::memcpy(&found, memory_.data(), 8);
    std::memcpy(&version, memory_.data() + 8, 8);
    if (version == 0) return 0;
    std::array<std::byte, block> whole;
    stamp(whole.data(), index, version);
    EXPECT_EQ(std::memcmp(whole.data(), memory_.data(), block), 0) << "block " << index << " is torn or another's";
    return version;
  }

  bool protected_;
  Profile profile_;
  ManualClock clock_;
  Random random_;
  Arena memory_;
  std::unique_ptr<NandDevice> device_;
  std::vector<Block> blocks_;
  std::map<std::uint64_t, InFlight> in_flight_;       // by version
  std::map<std::uint64_t, std::uint64_t> completed_;  // since the last flush
  std::uint64_t version_ = 0;
};

class PowerCutTest : public testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(PowerCutTest, WhatWasPromisedIsThere) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto [protects, processor] = GetParam();
    PowerCut test(protects, processor, seed);
    for (int round = 0; round < 3; ++round) {
      test.run(1000);
      test.cut_and_check();
      if (testing::Test::HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PowerCutTest, testing::Combine(testing::Bool(), testing::Bool()), [](const auto& which) {
  return std::string(std::get<0>(which.param) ? "protected" : "unprotected") +
         (std::get<1>(which.param) ? "_processor" : "");
});

}  // namespace
}  // namespace artesian::nand
