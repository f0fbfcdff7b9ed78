// Random work on a store beside a model that knows what may be found: for each block the version that was stored, the
// one that the last flush made durable, and those that a fault may bring back.
#pragma once

#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "store/engine_rig_test.h"

namespace artesian {

// How much the standing suites do: 1 unless ARTESIAN_TEST_SCALE says more.
inline std::uint64_t test_scale() {
  const char* text = std::getenv("ARTESIAN_TEST_SCALE");
  return text != nullptr ? std::max(1ULL, std::strtoull(text, nullptr, 10)) : 1;
}

// Seeds of a suite that has no threads: a tenth of them where ThreadSanitizer has nothing to find and all the time.
inline std::uint64_t test_seeds(std::uint64_t seeds) {
#ifdef __SANITIZE_THREAD__
  seeds = (seeds + 9) / 10;
#endif
  return seeds * test_scale();
}

class StoreModel {
 public:
  struct Block {
    bool stored = false;  // and not erased since
    std::uint64_t version = 0;
    bool durable = false;  // as of the last flush that went well,
    std::uint64_t durable_version = 0;
    std::set<std::uint64_t> since;  // what else may be there after a crash
    bool may_miss = false;          // an erase, or its loss, since that flush
    std::set<std::uint64_t> ever;
  };

  std::uint64_t next_version() { return ++last_version_; }
  Block& operator[](std::uint64_t number) { return blocks_[number]; }
  std::map<std::uint64_t, Block>& blocks() { return blocks_; }

  void put(std::uint64_t number, std::uint64_t version, Outcome outcome) {
    Block& block = blocks_[number];
    if (outcome == Outcome::present || outcome == Outcome::late) return;
    block.ever.insert(version);
    if (outcome != Outcome::rejected) block.since.insert(version);
    if (outcome != Outcome::stored) return;
    block.stored = true;
    block.version = version;
  }
  void erase(std::uint64_t number) {
    Block& block = blocks_[number];
    block.stored = false;
    block.may_miss = true;
  }
  void flushed() {
    for (auto& [number, block] : blocks_) {
      block.durable = block.stored;
      block.durable_version = block.version;
      block.since.clear();
      block.may_miss = false;
    }
  }
  // The process is gone: what is found now is what is there.
  void found(std::uint64_t number, bool there, std::uint64_t version) {
    Block& block = blocks_[number];
    block.stored = there;
    block.version = version;
    block.since.insert(version);
  }

 private:
  std::map<std::uint64_t, Block> blocks_;
  std::uint64_t last_version_ = 0;
};

// Random batches on a store.
class RandomWork {
 public:
  RandomWork(Store& store, NamespaceId ns, StoreModel& model, std::mt19937_64& random, std::uint64_t numbers)
      : store_(store),
        ns_(ns),
        model_(model),
        random_(random),
        numbers_(numbers),
        memory_(Arena::reserve(8 * slot_bytes).value()) {}

  // False if a wrong byte was seen. `strict`: a hit must be the version that was stored last.
  bool step(bool strict) {
    switch (random_() % 8) {
      case 0:
      case 1:
      case 2:
        put();
        return true;
      case 3:
        erase();
        return true;
      case 4:
        store_.poll();
        return true;
      default:
        return get(strict);
    }
  }

  void put() {
    std::vector<std::vector<std::byte>> keys;
    std::vector<std::uint64_t> numbers, versions;
    std::vector<Put> items;
    const std::size_t count = 1 + random_() % 8;
    for (std::size_t i = 0; i < count; ++i) {
      numbers.push_back(random_() % numbers_);
      versions.push_back(model_.next_version());
      keys.push_back(key_of(numbers[i]));
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t shift = random_() % 4 == 0 ? 8 : 0;
      const auto data = memory_.span().subspan(i * slot_bytes + shift, 1 + random_() % 40'000);
      fill_block(numbers[i], versions[i], data);
      items.push_back({.key = keys[i], .data = data, .hints = {.lifetime = static_cast<std::uint8_t>(random_() % 2)}});
    }
    store_.put(ns_, items);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_NE(items[i].outcome, Outcome::none);
      model_.put(numbers[i], versions[i], items[i].outcome);
    }
  }

  void erase() {
    const std::uint64_t number = random_() % numbers_;
    const auto key = key_of(number);
    Probe item{.key = key};
    store_.erase(ns_, std::span(&item, 1));
    model_.erase(number);
  }

  bool get(bool strict) {
    std::vector<std::vector<std::byte>> keys;
    std::vector<std::uint64_t> numbers;
    std::vector<Get> items;
    const std::size_t count = 1 + random_() % 8;
    for (std::size_t i = 0; i < count; ++i) {
      numbers.push_back(random_() % numbers_);
      keys.push_back(key_of(numbers[i]));
    }
    std::ranges::fill(memory_.span(), std::byte{0xEE});
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t shift = random_() % 4 == 0 ? 8 : 0;
      items.push_back({.key = keys[i], .buffer = memory_.span().subspan(i * slot_bytes + shift, 40'960)});
    }
    store_.get(ns_, items);
    bool right = true;
    for (std::size_t i = 0; i < count; ++i) right = look(items[i], numbers[i], strict) && right;
    return right;
  }

  bool look(const Get& item, std::uint64_t number, bool strict) {
    EXPECT_NE(item.outcome, Outcome::none);
    hits_ += item.outcome == Outcome::hit ? 1 : 0;
    if (item.outcome != Outcome::hit) return true;
    const auto& block = model_[number];
    const auto bytes = item.buffer.first(item.bytes);
    if (strict && block.stored) return is_block(number, block.version, bytes);
    if (strict) return false;
    return std::ranges::any_of(block.ever, [&](std::uint64_t version) { return is_block(number, version, bytes); });
  }
  std::uint64_t hits() const { return hits_; }

 private:
  static constexpr std::uint64_t slot_bytes = 64 * KiB;

  Store& store_;
  NamespaceId ns_;
  StoreModel& model_;
  std::mt19937_64& random_;
  std::uint64_t numbers_;
  Arena memory_;
  std::uint64_t hits_ = 0;
};

}  // namespace artesian
