#include "gateway/prefix_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace artesian {
namespace {

std::vector<Token> sequence(std::size_t count, Token first = 0) {
  std::vector<Token> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<Token> joined(std::vector<Token> one, const std::vector<Token>& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

class PrefixTreeTest : public testing::Test {
 protected:
  std::size_t keep(const std::vector<Token>& tokens) {
    const auto blocks = tree_.missing(root_, tokens);
    EXPECT_TRUE(blocks);
    for (const auto& block : *blocks) {
      EXPECT_TRUE(tree_.add(block.key, block.parent, std::span(tokens).subspan(block.first, block.count)));
      for (const auto& short_one : block.replaces) tree_.remove(short_one);
    }
    return blocks->size();
  }
  std::size_t found(const std::vector<Token>& tokens) const { return tree_.find(root_, tokens).tokens(); }

  PrefixTree tree_{4};
  BlockKey root_ = *tenant_root("one");
};

TEST_F(PrefixTreeTest, FindsTheLongestBeginningWhereverItEnds) {
  EXPECT_EQ(keep(sequence(10)), 3U);  // 4, 4 and a short one of 2
  for (std::size_t n = 0; n <= 10; ++n) EXPECT_EQ(found(sequence(n)), n);
  EXPECT_EQ(found(sequence(20)), 10U);
  EXPECT_EQ(found(joined(sequence(6), {99, 98})), 6U);
  EXPECT_EQ(found(sequence(10, 1)), 0U);
  const auto match = tree_.find(root_, joined(sequence(6), {99}));
  ASSERT_EQ(match.steps.size(), 2U);
  EXPECT_EQ(match.steps[1].used, 2U);
  EXPECT_EQ(match.steps[1].count, 4U);
}

TEST_F(PrefixTreeTest, WhatIsSharedIsKeptOnce) {
  keep(sequence(10));
  EXPECT_EQ(keep(joined(sequence(8), sequence(8, 50))), 2U);
  EXPECT_EQ(keep(joined(sequence(8), sequence(8, 50))), 0U);
  EXPECT_EQ(keep(sequence(9)), 0U);
  EXPECT_EQ(found(joined(sequence(8), sequence(8, 50))), 16U);
  EXPECT_EQ(found(sequence(10)), 10U);
}

TEST_F(PrefixTreeTest, AShortBlockGivesWayToOneThatGoesOn) {
  keep(sequence(6));
  EXPECT_EQ(tree_.size(), 2U);
  EXPECT_EQ(keep(sequence(9)), 2U);
  EXPECT_EQ(tree_.size(), 3U);
  EXPECT_EQ(found(sequence(9)), 9U);
}

TEST_F(PrefixTreeTest, ChildrenOfALostBlockComeBackWithIt) {
  keep(sequence(12));
  const auto first = tree_.find(root_, sequence(12)).steps[0].key;
  tree_.remove(first);
  EXPECT_EQ(found(sequence(12)), 0U);
  keep(sequence(4));
  EXPECT_EQ(found(sequence(12)), 12U);
}

TEST_F(PrefixTreeTest, TenantsSeeNothingOfEachOther) {
  keep(sequence(12));
  EXPECT_EQ(tree_.find(*tenant_root("two"), sequence(12)).tokens(), 0U);
}

TEST_F(PrefixTreeTest, LeavesAreConversationsWithWhatTheyShare) {
  keep(sequence(10));
  keep(joined(sequence(8), sequence(8, 50)));
  tree_.touch(tree_.find(root_, sequence(10)), Nanos(5));
  auto leaves = tree_.leaves();
  ASSERT_EQ(leaves.size(), 2U);
  std::ranges::sort(leaves, {}, &PrefixTree::Leaf::tokens);
  EXPECT_EQ(leaves[0].tokens, 10U);
  EXPECT_EQ(leaves[0].path.size(), 3U);
  EXPECT_EQ(leaves[0].used, Nanos(5));
  EXPECT_EQ(leaves[1].tokens, 16U);
  EXPECT_EQ(leaves[1].used, Nanos(0));
  for (const auto& leaf : leaves) {
    EXPECT_EQ(leaf.shared_tokens, 8U);
    EXPECT_EQ(leaf.root, root_);
    EXPECT_TRUE(tree_.is_leaf(leaf.key));
    EXPECT_FALSE(tree_.is_leaf(leaf.path[0]));
  }
}

TEST_F(PrefixTreeTest, ABlockUnderAnotherKeyIsRefused) {
  const auto tokens = sequence(4);
  EXPECT_FALSE(tree_.add(root_, root_, tokens));
  EXPECT_FALSE(tree_.add(*block_key(root_, sequence(5)), root_, sequence(5)));
  EXPECT_TRUE(tree_.add(*block_key(root_, tokens), root_, tokens));
}

TEST(BlockTokens, MakeBlocksOfSomeMegabytes) {
  EXPECT_EQ(choose_block_tokens(23'040), 128U);
  EXPECT_EQ(choose_block_tokens(327'680), 8U);
  EXPECT_EQ(choose_block_tokens(1 << 30), 1U);
}

}  // namespace
}  // namespace artesian
