// The store on a simulated drive whose power goes: what was flushed is there, what was not is right or a miss.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/units.h"
#include "nand/nand_device.h"
#include "platform/arena.h"
#include "store/engine.h"

namespace artesian {
namespace {

constexpr std::uint64_t block_bytes = 24 * KiB;

nand::Profile drive(bool protects) {
  nand::Profile p = nand::with_capacity(*nand::shipped_profile("client-tlc"), 512 * MiB);
  p.power_loss_protection = protects;
  return p;
}

class StorePower : public testing::TestWithParam<bool> {
 protected:
  void open() {
    auto engine = Engine::open(*device_, clock_, {});
    ASSERT_TRUE(engine) << engine.error().message;
    engine_ = std::move(*engine);
    ns_ = engine_->open_namespace({.model = "m", .weights = "w", .block_tokens = 16}).value();
  }

  void fill(std::uint64_t number) {
    nand::Random words(number + 1);
    for (std::size_t at = 0; at < block_bytes; at += 8) {
      const std::uint64_t word = words.next();
      std::memcpy(memory_.data() + at, &word, 8);
    }
  }

  Outcome put(std::uint64_t number) {
    fill(number);
    Put item{.key = std::as_bytes(std::span(&number, 1)), .data = memory_.span().first(block_bytes)};
    engine_->put(ns_, std::span(&item, 1));
    return item.outcome;
  }

  Outcome get(std::uint64_t number) {
    const auto out = memory_.span().subspan(block_bytes, block_bytes);
    Get item{.key = std::as_bytes(std::span(&number, 1)), .buffer = out};
    engine_->get(ns_, std::span(&item, 1));
    fill(number);
    EXPECT_TRUE(item.outcome != Outcome::hit || std::memcmp(memory_.data(), out.data(), block_bytes) == 0) << number;
    return item.outcome;
  }

  ManualClock clock_;
  Arena memory_ = Arena::reserve(2 * block_bytes).value();
  std::unique_ptr<nand::NandDevice> device_;
  std::unique_ptr<Engine> engine_;
  NamespaceId ns_ = 0;
};

TEST_P(StorePower, WhatWasFlushedIsThere) {
  auto device = nand::NandDevice::open(drive(GetParam()), {64 * MiB}, clock_);
  ASSERT_TRUE(device) << device.error().message;
  device_ = std::move(*device);
  StoreIdentity identity;
  identity.store.fill(std::byte{1});
  identity.secret.fill(std::byte{2});
  identity.paths.resize(1);
  identity.paths[0].fill(std::byte{3});
  ASSERT_TRUE(format_store(*device_, {.segment_bytes = 1 * MiB, .block_bytes_max = 64 * KiB}, identity));
  open();
  std::uint64_t next = 0;
  std::vector<std::uint64_t> flushed;
  for (int round = 0; round < 6 && !HasFailure(); ++round) {
    for (int i = 0; i < 40; ++i) {
      flushed.push_back(next);
      ASSERT_EQ(put(next++), Outcome::stored);
    }
    ASSERT_TRUE(engine_->flush());
    const std::uint64_t loose = next;
    for (int i = 0; i < 25; ++i) ASSERT_EQ(put(next++), Outcome::stored);
    engine_.reset();
    device_->cut_power();
    open();
    for (const std::uint64_t number : flushed) EXPECT_EQ(get(number), Outcome::hit) << "block " << number;
    for (std::uint64_t number = loose; number < next; ++number) {
      const Outcome outcome = get(number);
      EXPECT_TRUE(outcome == Outcome::hit || outcome == Outcome::miss) << outcome_name(outcome);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, StorePower, testing::Bool(),
                         [](const auto& which) { return which.param ? "protected" : "unprotected"; });

}  // namespace
}  // namespace artesian
