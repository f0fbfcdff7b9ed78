// What an owner does for a store: compact, repair, and blocks taken to another store.
#include "store/archive.h"

#include <gtest/gtest.h>

#include "store/engine_rig_test.h"

namespace artesian {
namespace {

class StoreCare : public testing::TestWithParam<bool>, protected EngineRig {
 protected:
  StoreCare() : EngineRig(GetParam()) {}
  void SetUp() override { make(1, 16); }
  static File unnamed() { return File::open_unnamed(testing::TempDir()).value(); }
};

TEST_P(StoreCare, CompactEmptiesWhatIsSparseAndLosesNothing) {
  for (std::uint64_t i = 0; i < 36; ++i) ASSERT_EQ(one_->put(i, 60'000), Outcome::stored);
  for (std::uint64_t i = 0; i < 36; ++i) {
    if (i % 3 != 0) {
      ASSERT_EQ(one_->erase(i), Outcome::hit);
    }
  }
  ASSERT_TRUE(engine_->flush());
  const StoreStats before = engine_->stats();
  std::uint64_t told = 0;
  const auto report = engine_->compact(0.75, [&](const CompactReport& now) { told = now.segments; });
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GT(report->emptied, 6U);
  EXPECT_EQ(told, report->of);
  EXPECT_GT(engine_->stats().segments_free, before.segments_free + 4);
  for (int opening = 0; opening < 2; ++opening) {
    for (std::uint64_t i = 0; i < 36; ++i) {
      EXPECT_EQ(one_->get(i), i % 3 == 0 ? Outcome::hit : Outcome::miss) << i << " in opening " << opening;
    }
    reopen();
  }
  EXPECT_EQ(engine_->stats().corrupt, 0U);
}

TEST_P(StoreCare, CompactLetsErasedNamespacesGo) {
  for (std::uint64_t i = 0; i < 24; ++i) ASSERT_EQ(one_->put(i, 60'000), Outcome::stored);
  ASSERT_TRUE(engine_->erase_namespace(ns_));
  const StoreStats before = engine_->stats();
  ASSERT_TRUE(engine_->compact(0.75, nullptr));
  EXPECT_GT(engine_->stats().segments_free, before.segments_free + 3);
  EXPECT_EQ(engine_->stats().bytes_carried, 0U);
}

TEST_P(StoreCare, WhatRepairFoundBadStaysAway) {
  for (std::uint64_t i = 0; i < 12; ++i) ASSERT_EQ(one_->put(i, 60'000), Outcome::stored);
  ASSERT_TRUE(engine_->flush());
  const std::uint64_t payload = store_data_offset + 2 * store_page + 100;  // of the first block
  flip(payload);
  const auto verified = engine_->verify(nullptr);
  ASSERT_TRUE(verified);
  EXPECT_EQ(verified->bad, 1U);
  reopen();
  EXPECT_EQ(one_->exists(0), Outcome::hit);  // its segment's index has it still
  const auto repaired = engine_->repair(nullptr);
  ASSERT_TRUE(repaired) << repaired.error().message;
  EXPECT_EQ(repaired->bad, 1U);
  reopen();
  EXPECT_EQ(one_->exists(0), Outcome::miss);
  EXPECT_EQ(engine_->repair(nullptr)->bad, 0U);
  for (std::uint64_t i = 1; i < 12; ++i) EXPECT_EQ(one_->get(i), Outcome::hit);
}

TEST_P(StoreCare, BlocksAreTakenToAnotherStoreAsTheyAre) {
  const auto bytes = [](const std::string& text) { return std::as_bytes(std::span(text)); };
  const std::string key = "key", parent = "parent", attributes = "attributes";
  std::vector<std::byte> data(30'000);
  fill_block(7, 7, data);
  const std::vector<std::uint32_t> extents{10'000, 20'000};
  Put put{
      .key = bytes(key), .parent = bytes(parent), .attributes = bytes(attributes), .data = data, .extents = extents};
  put.hints = {.session = 1, .position = 2, .tokens = 16, .deadline_ms = 4, .next_use_ms = 5, .lifetime = 1};
  engine_->put(ns_, std::span(&put, 1));
  ASSERT_EQ(put.outcome, Outcome::stored);
  const NamespaceId other = engine_->open_namespace(some_fields("another")).value();
  OneByOne others(*engine_, other);
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_EQ(others.put(i, 5000 + i, 3), Outcome::stored);
  const File file = unnamed();
  const auto exported = export_store(*engine_, file, nullptr);
  ASSERT_TRUE(exported) << exported.error().message;
  EXPECT_EQ(exported->blocks, 11U);
  EXPECT_EQ(exported->lost, 0U);

  one_.reset();
  engine_.reset();
  device_ = std::make_unique<MemoryDevice>(empty_files(1, 16));
  ASSERT_TRUE(format_store(*device_, small_geometry, kind_.identity(1, 9)));
  reopen();
  std::uint64_t told = 0;
  const auto imported = import_store(*engine_, file, [&](const ArchiveReport& now) { told = now.blocks; });
  ASSERT_TRUE(imported) << imported.error().message;
  EXPECT_EQ(imported->blocks, 11U);
  EXPECT_EQ(imported->lost, 0U);
  EXPECT_EQ(told, 11U);
  EXPECT_EQ(import_store(*engine_, file, nullptr)->present, 11U);
  OneByOne there(*engine_, engine_->open_namespace(some_fields("another")).value());
  for (std::uint64_t i = 0; i < 10; ++i) EXPECT_EQ(there.get(i, {3}), Outcome::hit);
  std::vector<BlockFacts> facts;
  ASSERT_TRUE(engine_->list(ns_, [&](const BlockFacts& one) {
    facts.push_back(one);
    return true;
  }));
  ASSERT_EQ(facts.size(), 1U);
  EXPECT_TRUE(std::ranges::equal(facts[0].parent, bytes(parent)));
  EXPECT_TRUE(std::ranges::equal(facts[0].attributes, bytes(attributes)));
  EXPECT_EQ(facts[0].extents, extents);
  EXPECT_EQ(facts[0].hints.session, 1U);
  EXPECT_EQ(facts[0].hints.position, 2U);
  EXPECT_EQ(facts[0].hints.tokens, 16U);
  EXPECT_EQ(facts[0].hints.deadline_ms, 4U);
  EXPECT_EQ(facts[0].hints.next_use_ms, 5U);
}

TEST_P(StoreCare, AnArchiveThatIsDamagedOrTooShortIsRefused) {
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_EQ(one_->put(i, 5000), Outcome::stored);
  const File file = unnamed();
  ASSERT_TRUE(export_store(*engine_, file, nullptr));
  const std::uint64_t size = file.size().value();
  std::vector<std::byte> good(size);
  ASSERT_TRUE(file.read(0, good));
  for (std::uint64_t at = 0; at < size; at += 1 + at / 20) {
    std::vector<std::byte> bad = good;
    bad[at] ^= std::byte{1};
    const File other = unnamed();
    ASSERT_TRUE(other.write(0, bad));
    EXPECT_FALSE(import_store(*engine_, other, nullptr)) << at;
  }
  for (std::uint64_t bytes = 0; bytes < size; bytes += 1 + bytes / 20) {
    const File other = unnamed();
    ASSERT_TRUE(other.write(0, std::span(good).first(bytes)));
    const auto refused = import_store(*engine_, other, nullptr);
    ASSERT_FALSE(refused) << bytes;
    EXPECT_EQ(refused.error().code, Code::corrupt) << bytes;
  }
  EXPECT_TRUE(import_store(*engine_, file, nullptr));
}

INSTANTIATE_TEST_SUITE_P(Stores, StoreCare, testing::Bool(), StoreKind::name);

}  // namespace
}  // namespace artesian
