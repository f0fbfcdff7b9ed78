// What is particular to an encrypted store: what lies on flash, nonces after everything was lost, and what an erased
// namespace leaves.
#include <gtest/gtest.h>

#include <set>

#include "store/engine_rig_test.h"

namespace artesian {
namespace {

class EngineSealTest : public testing::Test, protected EngineRig {
 protected:
  EngineSealTest() : EngineRig(true) {}
  void SetUp() override {
    model_ = "a model nobody knows";
    make();
  }
  std::vector<std::byte> content() {
    auto whole = Arena::reserve(device_->facts().file_bytes[0]).value();
    const auto bytes = whole.span().first(device_->facts().file_bytes[0]);
    raw(IoOp::read, 0, 0, bytes);
    return {bytes.begin(), bytes.end()};
  }
  // Epochs whose keys lie in the table, for who has the store's key.
  std::multiset<std::uint64_t> epochs_on_flash() {
    const auto bytes = content();
    const StoreKeys keys = *kind_.settings().keys;
    const auto sealer = Sealer::make(keys.key, kind_.identity(1).store, keys.randomness).value();
    std::multiset<std::uint64_t> epochs;
    for (std::uint32_t slot = 0; slot < namespace_slots; ++slot) {
      for (std::uint32_t copy = 0; copy < 2; ++copy) {
        const auto page = std::span(bytes).subspan(namespace_slot_offset(slot, copy), store_page);
        if (const auto parsed = parse_namespace_slot(page, kind_.identity(1).store, sealer.get())) {
          epochs.insert(parsed->epoch);
        }
      }
    }
    return epochs;
  }
  // Nonces of all record headers.
  std::vector<std::pair<Id, std::uint64_t>> nonces() {
    std::vector<std::pair<Id, std::uint64_t>> found;
    const auto bytes = content();
    for (std::uint64_t at = store_data_offset; at < bytes.size(); at += store_page) {
      const auto page = std::span(bytes).subspan(at, store_page);
      if (!begins_like_record(page)) continue;
      const SealNonce nonce = load_nonce(page, 64);
      found.emplace_back(nonce.opening, nonce.counter);
    }
    return found;
  }
};

TEST_F(EngineSealTest, NothingOfABlockCanBeReadFromFlash) {
  const std::string key = "a key that says something", parent = "a parent's key", attributes = "about whom it is";
  const std::vector<std::byte> data(20'000, std::byte{'x'});
  const auto bytes = [](const std::string& text) { return std::as_bytes(std::span(text)); };
  Put put{.key = bytes(key), .parent = bytes(parent), .attributes = bytes(attributes), .data = data};
  engine_->put(ns_, std::span(&put, 1));
  ASSERT_EQ(put.outcome, Outcome::stored);
  for (std::uint64_t i = 0; i < 20; ++i) ASSERT_EQ(one_->put(i, 60'000), Outcome::stored);  // and it is sealed
  one_->erase(3);
  ASSERT_TRUE(engine_->flush());
  const auto flash = content();
  for (const std::string& secret : {key, parent, attributes, std::string(64, 'x'), std::string("nobody knows")}) {
    EXPECT_TRUE(std::ranges::search(flash, bytes(secret)).empty()) << secret;
  }
  auto found = nonces();
  EXPECT_GT(found.size(), 21U);
  std::ranges::sort(found);
  EXPECT_EQ(std::ranges::adjacent_find(found), found.end());
}

// As after a power cut that has lost all, or with a copy of the file that is put back.
TEST_F(EngineSealTest, AStoreThatIsSetBackNeverUsesANonceAgain) {
  engine_.reset();
  auto before = Arena::reserve(device_->facts().file_bytes[0]).value();
  const auto whole = before.span().first(device_->facts().file_bytes[0]);
  raw(IoOp::read, 0, 0, whole);
  std::set<std::pair<Id, std::uint64_t>> ever;
  std::size_t count = 0;
  for (std::uint64_t life = 0; life < 3; ++life) {
    raw(IoOp::write, 0, 0, whole);
    reopen();
    for (std::uint64_t i = 0; i < 30; ++i) one_->put(i, 20'000, life);
    const auto found = nonces();
    ever.insert(found.begin(), found.end());
    count += found.size();
    EXPECT_EQ(one_->get(29, {life}), Outcome::hit);
  }
  EXPECT_GE(count, 90U);
  EXPECT_EQ(ever.size(), count);
}

TEST_F(EngineSealTest, AnErasedNamespaceLeavesNoKeyOfItsOwn) {
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_EQ(one_->put(i, 20'000), Outcome::stored);
  const NamespaceId other = engine_->open_namespace(some_fields("another")).value();
  OneByOne others(*engine_, other);
  ASSERT_EQ(others.put(1, 5000), Outcome::stored);
  ASSERT_TRUE(engine_->flush());
  const auto before = epochs_on_flash();
  const std::uint64_t old_epoch = *before.begin();
  ASSERT_TRUE(engine_->erase_namespace(ns_));
  EXPECT_EQ(epochs_on_flash().count(old_epoch), 0U);
  EXPECT_EQ(one_->get(1), Outcome::miss);
  ASSERT_EQ(one_->put(1, 7000, 5), Outcome::stored);
  EXPECT_EQ(one_->get(1, {5}), Outcome::hit);
  const auto report = engine_->verify(nullptr);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->bad, 0U);
  EXPECT_EQ(report->blocks, 2U);
  reopen();
  EXPECT_EQ(engine_->stats().records_skipped, 0U);
  EXPECT_EQ(one_->get(1, {5}), Outcome::hit);
  EXPECT_EQ(one_->get(2), Outcome::miss);
  EXPECT_EQ(engine_->verify(nullptr)->bad, 0U);
  for (std::uint64_t i = 100; i < 200; ++i) ASSERT_EQ(one_->put(i, 20'000), Outcome::stored);  // through reclaim
  EXPECT_EQ(engine_->stats().corrupt, 0U);
}

TEST_F(EngineSealTest, AKeyThatACrashHasLeftGoesWhenTheStoreIsOpened) {
  ASSERT_EQ(one_->put(1, 5000), Outcome::stored);
  ASSERT_TRUE(engine_->flush());
  const auto before = content();
  const std::uint64_t old_epoch = *epochs_on_flash().begin();
  ASSERT_TRUE(engine_->erase_namespace(ns_));
  engine_.reset();
  // The second copy as it was: the first one was made durable, then the power went.
  std::uint32_t put_back = 0;
  auto page = Arena::reserve(store_page).value();
  for (std::uint32_t copy = 0; copy < 2 && put_back == 0; ++copy) {
    const auto old = std::span(before).subspan(namespace_slot_offset(0, copy), store_page);
    if (std::ranges::all_of(old, [](std::byte byte) { return byte == std::byte{0}; })) continue;
    std::ranges::copy(old, page.span().begin());
    raw(IoOp::write, 0, namespace_slot_offset(0, copy), page.span().first(store_page));
    ++put_back;
  }
  ASSERT_EQ(put_back, 1U);
  ASSERT_EQ(epochs_on_flash().count(old_epoch), 1U);
  reopen();
  EXPECT_EQ(epochs_on_flash().count(old_epoch), 0U);
  EXPECT_EQ(one_->get(1), Outcome::miss);
}

}  // namespace
}  // namespace artesian
