// What is kept of the conversations of one namespace, as a tree: each node is a block of up to `block_tokens` tokens,
// under the block before it. Only a full block has children. A sequence follows its full blocks from a tenant's root
// and may end inside one: the children of a block are compared token by token.
//
// A node's key is the SHA-256 of its parent's key and its tokens, so a key stands for the whole sequence up to it and
// for the tenant; what is found is nevertheless compared by token. Nodes whose parent is gone are remembered and come
// back with it.
//
// Threads: one caller at a time. Pure: whether the bytes of a block are there is the store's to say.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/sha256.h"
#include "base/units.h"
#include "format/slot_file.h"

namespace artesian {

using BlockKey = Sha256;

// The key that the first blocks of this tenant's sequences have for a parent.
Result<BlockKey> tenant_root(std::string_view tenant);
Result<BlockKey> block_key(const BlockKey& parent, std::span<const Token> tokens);

class PrefixTree {
 public:
  struct Step {
    BlockKey key;
    std::size_t first = 0;  // its first token in the sequence
    std::size_t used = 0;   // that agree with the sequence, from the block's first on
    std::size_t count = 0;  // of the block
  };
  struct Match {
    std::vector<Step> steps;
    std::size_t tokens() const { return steps.empty() ? 0 : steps.back().first + steps.back().used; }
  };
  struct NewBlock {
    BlockKey key, parent;
    std::size_t first = 0, count = 0;
    std::vector<BlockKey> replaces;  // short blocks that say no more than the beginning of this one
  };

  explicit PrefixTree(std::uint32_t block_tokens) : block_tokens_(block_tokens) {}

  // The longest beginning of `tokens` that is kept under this root.
  Match find(const BlockKey& root, std::span<const Token> tokens) const;
  // What would have to be added so that all of `tokens` is kept, parents first.
  Result<std::vector<NewBlock>> missing(const BlockKey& root, std::span<const Token> tokens) const;

  // corrupt if the key is not that of these tokens under this parent.
  Status add(const BlockKey& key, const BlockKey& parent, std::span<const Token> tokens);
  void remove(const BlockKey& key);

  // A sequence that nothing goes on from and that is there from its first block on.
  struct Leaf {
    BlockKey key, root;
    std::vector<BlockKey> path;  // its blocks, from the first
    std::size_t tokens = 0;
    std::size_t shared_tokens = 0;  // that others begin with, too
    Nanos used{0};                  // when it was last found or added to; 0: not since this tree was made
  };
  std::vector<Leaf> leaves() const;
  // The blocks from the first to this one; none where one of them is not there.
  std::vector<BlockKey> path_to(const BlockKey& key) const;
  bool is_leaf(const BlockKey& key) const { return find_node(key) != nullptr && children(key).empty(); }
  std::size_t branches(const BlockKey& key) const { return children(key).size(); }  // blocks that go on from it
  void touch(const Match& match, Nanos now);

  std::uint32_t block_tokens() const { return block_tokens_; }
  std::size_t size() const { return nodes_.size(); }

 private:
  struct Node {
    BlockKey parent;
    std::vector<Token> tokens;
    Nanos used{0};
  };

  const Node* find_node(const BlockKey& key) const;
  std::span<const BlockKey> children(const BlockKey& parent) const;

  std::uint32_t block_tokens_;
  std::map<BlockKey, Node> nodes_;
  std::map<BlockKey, std::vector<BlockKey>> children_;
};

// How many tokens both begin with.
std::size_t common_prefix(std::span<const Token> one, std::span<const Token> other);

// What a block should take at most; one token may take more.
constexpr std::uint64_t block_bytes_aim = 4 * MiB;

// As many tokens to a block as make blocks of a few megabytes, at most 128.
std::uint32_t choose_block_tokens(std::uint64_t token_bytes);

}  // namespace artesian
