// The index against a model made of the standard's containers, and its promises: bounds, growth, refusals that change
// nothing, memory.
#include "store/block_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <unordered_map>

namespace artesian {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAreArray;

// Evenly spread, and never the same for two numbers.
KeyHash key_of(std::uint64_t number) {
  const auto mix = [](std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  };
  return {mix(2 * number + 1), mix(mix(number) + 0x9e3779b97f4a7c15ULL)};
}

BlockEntry entry_at(std::uint32_t segment, std::uint32_t page, std::uint64_t policy = 0) {
  return {{.segment = segment, .page = page, .pages = 17, .header_pages = 1, .lifetime = 2}, policy};
}

BlockIndex make(std::uint64_t blocks_max, std::uint32_t segments_max = 16) {
  auto index = BlockIndex::create(blocks_max, segments_max);
  EXPECT_TRUE(index) << index.error().message;
  return std::move(*index);
}

std::vector<KeyHash> children(const BlockIndex& index, const KeyHash& parent) {
  std::vector<KeyHash> out;
  index.children(parent, out);
  return out;
}

std::vector<IndexedBlock> blocks(const BlockIndex& index, std::uint32_t segment, std::size_t step = 7) {
  std::vector<IndexedBlock> out;
  BlockIndex::SegmentCursor cursor;
  for (std::size_t before = 1; before != out.size();) {
    before = out.size();
    index.blocks_of(segment, cursor, step, out);
  }
  return out;
}

template <typename T>
Code code_of(const Result<T>& status) {
  EXPECT_FALSE(status);
  EXPECT_FALSE(status.error().message.empty());
  return status.error().code;
}

TEST(BlockIndex, GivesBackWhatWasPutIn) {
  BlockIndex index = make(100);
  const BlockEntry largest{{15, (1U << 22) - 1, (1U << 15) - 1, 15, 15}, ~0ULL};
  ASSERT_TRUE(index.insert(key_of(1), {}, largest));
  ASSERT_TRUE(index.insert(key_of(2), {}, BlockEntry{}));
  EXPECT_EQ(index.find(key_of(1)), largest);
  EXPECT_EQ(index.find(key_of(2)), BlockEntry{});
  EXPECT_FALSE(index.find(key_of(3)));
  EXPECT_EQ(index.size(), 2U);
  EXPECT_TRUE(index.set_policy(key_of(2), 77));
  EXPECT_FALSE(index.set_policy(key_of(3), 77));
  EXPECT_EQ(index.find(key_of(2))->policy, 77U);
  EXPECT_TRUE(index.erase(key_of(1)));
  EXPECT_FALSE(index.erase(key_of(1)));
  EXPECT_FALSE(index.find(key_of(1)));
}

TEST(BlockIndex, RefusesWhatItCannotHoldAndChangesNothing) {
  BlockIndex index = make(100);
  ASSERT_TRUE(index.insert(key_of(1), {}, entry_at(1, 1)));
  EXPECT_EQ(code_of(index.insert(key_of(1), {}, entry_at(2, 2))), Code::invalid);
  EXPECT_EQ(code_of(index.insert({}, {}, entry_at(2, 2))), Code::invalid);
  for (const BlockLocation& wrong :
       {BlockLocation{.segment = 16}, BlockLocation{.page = 1U << 22}, BlockLocation{.pages = 1U << 15},
        BlockLocation{.header_pages = 16}, BlockLocation{.lifetime = 16}}) {
    EXPECT_EQ(code_of(index.insert(key_of(2), {}, {wrong, 0})), Code::invalid);
    EXPECT_EQ(code_of(index.move(key_of(1), entry_at(1, 1).location, wrong)), Code::invalid);
  }
  EXPECT_EQ(index.find(key_of(1)), entry_at(1, 1));
  EXPECT_EQ(index.size(), 1U);
  EXPECT_EQ(code_of(BlockIndex::create(0, 1)), Code::invalid);
  EXPECT_EQ(code_of(BlockIndex::create(1, 0)), Code::invalid);
  EXPECT_EQ(code_of(BlockIndex::create(1ULL << 60, 1)), Code::invalid);
  EXPECT_EQ(code_of(BlockIndex::create(1, 1U << 31)), Code::invalid);
}

TEST(BlockIndex, SaysHowManyBlocksItCanBeMadeFor) {
  for (const std::uint32_t segments : {1U, 1000U, 1U << 20}) {
    const std::uint64_t limit = BlockIndex::blocks_limit(segments);
    EXPECT_GT(limit, 10'000'000U);
    EXPECT_TRUE(BlockIndex::create(limit, segments));
    EXPECT_EQ(code_of(BlockIndex::create(limit + 1, segments)), Code::invalid);
  }
  EXPECT_EQ(BlockIndex::blocks_limit(1U << 31), 0U);
  EXPECT_EQ(BlockIndex::blocks_limit(0), 0U);
}

TEST(BlockIndex, FullIsFullAndEmptiesAgain) {
  BlockIndex index = make(100);
  for (std::uint64_t i = 0; i < 99; ++i) ASSERT_TRUE(index.insert(key_of(i), {}, entry_at(i % 16, 1)));
  EXPECT_EQ(code_of(index.insert(key_of(200), key_of(201), entry_at(0, 1))), Code::rejected);  // needs two places
  EXPECT_EQ(index.ghosts(), 0U);
  ASSERT_TRUE(index.insert(key_of(200), key_of(5), entry_at(0, 1)));
  EXPECT_EQ(code_of(index.insert(key_of(202), {}, entry_at(0, 1))), Code::rejected);
  EXPECT_FALSE(index.find(key_of(202)));
  EXPECT_TRUE(index.erase(key_of(7)));
  EXPECT_TRUE(index.insert(key_of(202), {}, entry_at(0, 1)));
}

TEST(BlockIndex, MovesOnlyWhatIsThere) {
  BlockIndex index = make(100);
  ASSERT_TRUE(index.insert(key_of(1), {}, entry_at(1, 1, 9)));
  ASSERT_TRUE(index.insert(key_of(2), key_of(1), entry_at(1, 2)));
  ASSERT_TRUE(index.insert(key_of(3), key_of(1), entry_at(1, 3)));
  ASSERT_TRUE(index.insert(key_of(4), key_of(2), entry_at(1, 4)));
  EXPECT_EQ(code_of(index.move(key_of(1), entry_at(1, 2).location, entry_at(2, 1).location)), Code::not_found);
  EXPECT_EQ(code_of(index.move(key_of(9), entry_at(1, 2).location, entry_at(2, 1).location)), Code::not_found);
  for (std::uint32_t i = 1; i <= 4; ++i) {
    ASSERT_TRUE(index.move(key_of(i), entry_at(1, i).location, entry_at(2, 10 + i).location));
    EXPECT_THAT(children(index, key_of(1)), ElementsAre(key_of(3), key_of(2)));
    EXPECT_THAT(children(index, key_of(2)), ElementsAre(key_of(4)));
  }
  ASSERT_TRUE(index.move(key_of(1), entry_at(2, 11).location, entry_at(2, 1).location));  // inside a segment
  EXPECT_EQ(index.find(key_of(1)), entry_at(2, 1, 9));
  EXPECT_THAT(blocks(index, 1), IsEmpty());
  EXPECT_EQ(blocks(index, 2).size(), 4U);
  EXPECT_FALSE(index.erase_at(key_of(2), entry_at(1, 2).location));
  EXPECT_TRUE(index.erase_at(key_of(2), entry_at(2, 12).location));
}

TEST(BlockIndex, AParentThatIsGoneKeepsItsChildren) {
  BlockIndex index = make(100);
  ASSERT_TRUE(index.insert(key_of(2), key_of(1), entry_at(0, 2)));  // before its parent
  EXPECT_FALSE(index.find(key_of(1)));
  EXPECT_TRUE(index.has_children(key_of(1)));
  EXPECT_EQ(index.ghosts(), 1U);
  ASSERT_TRUE(index.insert(key_of(1), {}, entry_at(0, 1)));
  EXPECT_EQ(index.ghosts(), 0U);
  ASSERT_TRUE(index.insert(key_of(3), key_of(1), entry_at(0, 3)));
  ASSERT_TRUE(index.erase(key_of(1)));
  EXPECT_FALSE(index.find(key_of(1)));
  EXPECT_FALSE(index.set_policy(key_of(1), 1));
  EXPECT_EQ(code_of(index.move(key_of(1), entry_at(0, 1).location, entry_at(1, 1).location)), Code::not_found);
  EXPECT_THAT(children(index, key_of(1)), ElementsAre(key_of(3), key_of(2)));
  EXPECT_THAT(blocks(index, 0),
              ElementsAre(IndexedBlock{key_of(2), entry_at(0, 2)}, IndexedBlock{key_of(3), entry_at(0, 3)}));
  ASSERT_TRUE(index.erase(key_of(2)));
  EXPECT_EQ(index.ghosts(), 1U);
  ASSERT_TRUE(index.erase(key_of(3)));
  EXPECT_EQ(index.ghosts(), 0U);
  EXPECT_FALSE(index.has_children(key_of(1)));
}

TEST(BlockIndex, KnowsTheParentOfABlock) {
  BlockIndex index = make(1000);
  ASSERT_TRUE(index.insert(key_of(1), {}, entry_at(1, 1)));
  for (std::uint64_t child = 2; child < 80; ++child) {
    ASSERT_TRUE(index.insert(key_of(child), key_of(1), entry_at(2, static_cast<std::uint32_t>(child))));
  }
  EXPECT_TRUE(index.parent(key_of(1)).key.none());
  EXPECT_TRUE(index.parent(key_of(1)).stored);
  EXPECT_EQ(index.parent(key_of(70)).key, key_of(1));
  EXPECT_TRUE(index.parent(key_of(70)).stored);
  EXPECT_TRUE(index.parent(key_of(2)).key.none());  // behind too many siblings
  EXPECT_TRUE(index.parent(key_of(2)).stored);
  ASSERT_TRUE(index.erase(key_of(1)));
  EXPECT_EQ(index.parent(key_of(70)).key, key_of(1));
  EXPECT_FALSE(index.parent(key_of(70)).stored);
  EXPECT_TRUE(index.parent(key_of(500)).key.none());
}

TEST(BlockIndex, CirclesOfParentsComeApart) {
  BlockIndex index = make(100);
  ASSERT_TRUE(index.insert(key_of(1), key_of(1), entry_at(0, 1)));  // names itself: a root
  EXPECT_FALSE(index.has_children(key_of(1)));
  ASSERT_TRUE(index.insert(key_of(2), key_of(3), entry_at(0, 2)));
  ASSERT_TRUE(index.insert(key_of(3), key_of(2), entry_at(0, 3)));
  EXPECT_THAT(children(index, key_of(2)), ElementsAre(key_of(3)));
  ASSERT_TRUE(index.move(key_of(2), entry_at(0, 2).location, entry_at(1, 2).location));
  EXPECT_THAT(children(index, key_of(3)), ElementsAre(key_of(2)));
  ASSERT_TRUE(index.erase(key_of(2)));
  ASSERT_TRUE(index.erase(key_of(3)));
  EXPECT_EQ(index.size() + index.ghosts(), 1U);
}

TEST(BlockIndex, AReclaimFindsAllOfASegmentWhileItMovesAndErases) {
  BlockIndex index = make(2000);
  for (std::uint32_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(index.insert(key_of(i), i == 0 ? KeyHash{} : key_of(i - 1), entry_at(i < 900 ? 3 : 4, i, i)));
  }
  BlockIndex::SegmentCursor cursor;
  std::vector<IndexedBlock> some;
  std::vector<bool> seen(1000);
  for (;;) {
    some.clear();
    index.blocks_of(3, cursor, 10, some);
    if (some.empty()) break;
    for (const IndexedBlock& block : some) {
      EXPECT_FALSE(seen[block.entry.policy]);
      seen[block.entry.policy] = true;
      if (block.entry.policy % 3 == 0) {
        ASSERT_TRUE(index.move(block.key, block.entry.location, entry_at(5, block.entry.location.page).location));
      } else {
        ASSERT_TRUE(index.erase_at(block.key, block.entry.location));
      }
    }
  }
  EXPECT_EQ(std::ranges::count(seen, true), 900);
  EXPECT_THAT(blocks(index, 3), IsEmpty());
  EXPECT_EQ(blocks(index, 5).size(), 300U);
  EXPECT_EQ(blocks(index, 4).size(), 100U);
  EXPECT_THAT(blocks(index, 16), IsEmpty());  // no such segment
  EXPECT_EQ(index.size(), 400U);
}

TEST(BlockIndex, GrowsWithoutLosingSightOfAnything) {
  constexpr std::uint64_t count = 200'000;
  BlockIndex index = make(count, 64);
  std::mt19937_64 random(1);
  for (std::uint64_t i = 0; i < count; ++i) {
    ASSERT_TRUE(index.insert(key_of(i), {}, entry_at(static_cast<std::uint32_t>(i / 4096), i % 4096, i)));
    const std::uint64_t one = random() % (i + 1);
    ASSERT_EQ(index.find(key_of(one))->policy, one) << i;
    ASSERT_FALSE(index.find(key_of(count + one)));
  }
  for (std::uint64_t i = 0; i < count; ++i) ASSERT_EQ(index.find(key_of(i))->policy, i);
  EXPECT_LE(index.bytes(), count * 48);
  const std::uint64_t bytes = index.bytes();
  for (std::uint64_t i = 0; i < count; ++i) ASSERT_TRUE(index.erase(key_of(i)));
  for (std::uint64_t i = 0; i < count; ++i) ASSERT_TRUE(index.insert(key_of(count + i), {}, entry_at(i % 64, 1)));
  EXPECT_LE(index.bytes(), bytes + 64 * 64 * 48);  // what was freed is used again; each segment has begun a chunk
}

TEST(BlockIndex, UnevenHashesAreSlowAndRight) {
  BlockIndex index = make(10'000);
  for (std::uint64_t i = 1; i <= 1000; ++i) ASSERT_TRUE(index.insert({i, 0}, {}, entry_at(0, 1, i)));
  std::uint64_t last = 0;  // all in the last bucket: there is an end to that
  while (last < 2000 && index.insert({last + 1, ~0ULL}, {}, entry_at(1, 1, last + 1))) ++last;
  EXPECT_GT(last, 500U);
  EXPECT_LT(last, 2000U);
  EXPECT_EQ(index.size(), 1000 + last);
  std::vector<std::uint64_t> even;  // all but those that would stand at the end, too; the table grows meanwhile
  for (std::uint64_t i = 1; i <= 3000; ++i) {
    if (index.insert(key_of(i), {}, entry_at(2, 1, i))) even.push_back(i);
  }
  EXPECT_GT(even.size(), 2000U);
  for (const std::uint64_t i : even) ASSERT_EQ(index.find(key_of(i))->policy, i);
  for (std::uint64_t i = 1; i <= 1000; ++i) ASSERT_EQ(index.find({i, 0})->policy, i);
  for (std::uint64_t i = 1; i <= last; ++i) ASSERT_EQ(index.find({i, ~0ULL})->policy, i);
  for (std::uint64_t i = 1; i <= 1000; ++i) ASSERT_TRUE(index.erase({i, 0}));
  for (std::uint64_t i = 1; i <= last; ++i) ASSERT_EQ(index.find({i, ~0ULL})->policy, i);
}

// What the index must be, in the simplest words.
struct Model {
  struct Block {
    BlockEntry entry;
    KeyHash parent;
  };
  std::unordered_map<KeyHash, Block, KeyHashHash> blocks;

  std::vector<KeyHash> children(const KeyHash& parent) const {
    std::vector<KeyHash> out;
    for (const auto& [key, block] : blocks) {
      if (block.parent == parent && key != parent) out.push_back(key);
    }
    return out;
  }
  std::vector<IndexedBlock> of(std::uint32_t segment) const {
    std::vector<IndexedBlock> out;
    for (const auto& [key, block] : blocks) {
      if (block.entry.location.segment == segment) out.push_back({key, block.entry});
    }
    return out;
  }
  std::uint64_t ghosts() const {
    std::map<KeyHash, int> absent;
    for (const auto& [key, block] : blocks) {
      if (!block.parent.none() && !blocks.contains(block.parent)) absent[block.parent] = 1;
    }
    return absent.size();
  }
};

class ModelRun {
 public:
  explicit ModelRun(std::uint64_t seed) : random_(seed) {}

  void step() {
    const KeyHash key = key_of(below(keys_));
    const auto known = model_.blocks.find(key);
    switch (below(6)) {
      case 0:
      case 1:
        return insert(key);
      case 2:
        ASSERT_EQ(index_.erase(key), model_.blocks.erase(key) == 1);
        return;
      case 3:
        return move(key);
      case 4: {
        const std::uint64_t policy = random_();
        ASSERT_EQ(index_.set_policy(key, policy), known != model_.blocks.end());
        if (known != model_.blocks.end()) known->second.entry.policy = policy;
        return;
      }
      default:
        return reclaim();
    }
  }

  void compare() const {
    ASSERT_EQ(index_.size(), model_.blocks.size());
    ASSERT_EQ(index_.ghosts(), model_.ghosts());
    for (std::uint64_t i = 0; i < keys_; ++i) {
      const KeyHash key = key_of(i);
      const auto known = model_.blocks.find(key);
      const auto found = index_.find(key);
      ASSERT_EQ(found.has_value(), known != model_.blocks.end());
      if (found) {
        ASSERT_EQ(*found, known->second.entry);
      }
      const std::vector<KeyHash> expected = model_.children(key);
      ASSERT_EQ(index_.has_children(key), !expected.empty());
      ASSERT_THAT(children(index_, key), UnorderedElementsAreArray(expected));
    }
    for (std::uint32_t segment = 0; segment < segments_; ++segment) {
      ASSERT_THAT(blocks(index_, segment), UnorderedElementsAreArray(model_.of(segment)));
    }
  }

 private:
  std::uint64_t below(std::uint64_t end) { return random_() % end; }
  BlockLocation anywhere() {
    return {static_cast<std::uint32_t>(below(segments_)), static_cast<std::uint32_t>(below(1U << 22)),
            static_cast<std::uint16_t>(below(1U << 15)), static_cast<std::uint8_t>(below(16)),
            static_cast<std::uint8_t>(below(16))};
  }

  void insert(const KeyHash& key) {
    // Few parents with many children, chains, circles, itself, and none.
    const KeyHash parent = below(4) == 0 ? KeyHash{} : key_of(below(below(2) == 0 ? 3 : keys_));
    const BlockEntry entry{anywhere(), random_()};
    const Status done = index_.insert(key, parent, entry);
    if (done) {
      ASSERT_TRUE(model_.blocks.emplace(key, Model::Block{entry, parent == key ? KeyHash{} : parent}).second);
    } else {
      ASSERT_EQ(done.error().code == Code::invalid, model_.blocks.contains(key));
      ASSERT_TRUE(model_.blocks.contains(key) || index_.size() + index_.ghosts() + 2 > blocks_max_);
    }
  }

  void move(const KeyHash& key) {
    const auto known = model_.blocks.find(key);
    const BlockLocation to = anywhere();
    const bool from_there = known != model_.blocks.end() && below(4) != 0;
    const Status done = index_.move(key, from_there ? known->second.entry.location : anywhere(), to);
    ASSERT_EQ(done.has_value(), from_there);
    if (done) known->second.entry.location = to;
  }

  // A segment is reclaimed: some of its blocks are carried forward, the others go.
  void reclaim() {
    if (below(100) != 0) return;
    const auto segment = static_cast<std::uint32_t>(below(segments_));
    for (const IndexedBlock& block : blocks(index_, segment, 1 + below(10))) {
      const BlockLocation to = anywhere();
      if (below(3) == 0) {
        ASSERT_TRUE(index_.move(block.key, block.entry.location, to));
        model_.blocks.at(block.key).entry.location = to;
      } else {
        ASSERT_TRUE(index_.erase_at(block.key, block.entry.location));
        model_.blocks.erase(block.key);
      }
    }
  }

  static constexpr std::uint64_t keys_ = 400;
  static constexpr std::uint64_t blocks_max_ = 380;
  static constexpr std::uint32_t segments_ = 5;
  std::mt19937_64 random_;
  BlockIndex index_ = make(blocks_max_, segments_);
  Model model_;
};

TEST(BlockIndex, DoesWhatTheModelDoes) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ModelRun run(seed);
    for (int step = 0; step < 20'000; ++step) {
      run.step();
      if (HasFatalFailure()) return;
      if (step % 1000 == 999) run.compare();
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace artesian
