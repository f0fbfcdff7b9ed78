#include "gateway/prefix_tree.h"

#include <algorithm>
#include <cstring>

#include "base/units.h"

namespace artesian {

std::size_t common_prefix(std::span<const Token> one, std::span<const Token> other) {
  const auto [end, _] = std::ranges::mismatch(one, other);
  return static_cast<std::size_t>(end - one.begin());
}

std::uint32_t choose_block_tokens(std::uint64_t token_bytes) {
  std::uint32_t tokens = 128;
  while (tokens > 1 && tokens * token_bytes > block_bytes_aim) tokens /= 2;
  return tokens;
}

Result<BlockKey> tenant_root(std::string_view tenant) {
  const std::string text = fmt::format("artesian contexts of {}", tenant);
  return sha256(std::as_bytes(std::span(text)));
}

Result<BlockKey> block_key(const BlockKey& parent, std::span<const Token> tokens) {
  std::vector<std::byte> bytes(parent.begin(), parent.end());
  const auto view = std::as_bytes(tokens);
  bytes.insert(bytes.end(), view.begin(), view.end());
  return sha256(bytes);
}

const PrefixTree::Node* PrefixTree::find_node(const BlockKey& key) const {
  const auto found = nodes_.find(key);
  return found != nodes_.end() ? &found->second : nullptr;
}

std::span<const BlockKey> PrefixTree::children(const BlockKey& parent) const {
  const auto found = children_.find(parent);
  return found != children_.end() ? std::span<const BlockKey>(found->second) : std::span<const BlockKey>();
}

PrefixTree::Match PrefixTree::find(const BlockKey& root, std::span<const Token> tokens) const {
  Match match;
  BlockKey parent = root;
  std::size_t at = 0;
  while (at < tokens.size()) {
    Step best{.first = at};
    for (const BlockKey& child : children(parent)) {
      const auto& block = find_node(child)->tokens;
      const std::size_t used = common_prefix(block, tokens.subspan(at));
      if (used > best.used || (used == best.used && used > 0 && block.size() < best.count)) {
        best = {.key = child, .first = at, .used = used, .count = block.size()};
      }
    }
    if (best.used == 0) break;
    match.steps.push_back(best);
    if (best.used < block_tokens_) break;
    parent = best.key;
    at += best.used;
  }
  return match;
}

Result<std::vector<PrefixTree::NewBlock>> PrefixTree::missing(const BlockKey& root,
                                                              std::span<const Token> tokens) const {
  std::vector<NewBlock> blocks;
  const Match match = find(root, tokens);
  BlockKey parent = root;
  std::size_t at = 0;
  for (const Step& step : match.steps) {
    if (step.used < block_tokens_) {
      if (at + step.used == tokens.size()) return blocks;  // the rest is the beginning of a block that is there
      break;
    }
    parent = step.key;
    at += block_tokens_;
  }
  while (at < tokens.size()) {
    const auto own = tokens.subspan(at, std::min<std::size_t>(block_tokens_, tokens.size() - at));
    const auto key = block_key(parent, own);
    if (!key) return fail(key.error());
    NewBlock block{.key = *key, .parent = parent, .first = at, .count = own.size(), .replaces = {}};
    for (const BlockKey& child : children(parent)) {
      const auto& other = find_node(child)->tokens;
      if (other.size() < own.size() && common_prefix(other, own) == other.size()) block.replaces.push_back(child);
    }
    blocks.push_back(std::move(block));
    parent = *key;
    at += own.size();
  }
  return blocks;
}

Status PrefixTree::add(const BlockKey& key, const BlockKey& parent, std::span<const Token> tokens) {
  const auto expected = block_key(parent, tokens);
  if (!expected) return fail(expected.error());
  if (*expected != key || tokens.empty() || tokens.size() > block_tokens_) {
    return fail(Code::corrupt, "contexts: a block of {} tokens is not under its own key", tokens.size());
  }
  if (!nodes_.emplace(key, Node{.parent = parent, .tokens = {tokens.begin(), tokens.end()}}).second) return {};
  children_[parent].push_back(key);
  return {};
}

void PrefixTree::touch(const Match& match, Nanos now) {
  for (const Step& step : match.steps) {
    if (const auto found = nodes_.find(step.key); found != nodes_.end()) found->second.used = now;
  }
}

std::vector<BlockKey> PrefixTree::path_to(const BlockKey& key) const {
  std::vector<BlockKey> path;
  const Node* at = find_node(key);
  for (BlockKey up = key; at != nullptr; up = at->parent, at = find_node(up)) path.push_back(up);
  std::ranges::reverse(path);
  return path;
}

std::vector<PrefixTree::Leaf> PrefixTree::leaves() const {
  std::vector<Leaf> leaves;
  std::map<BlockKey, std::uint32_t> passes;  // how many leaves lie behind a block
  for (const auto& [key, node] : nodes_) {
    if (!children(key).empty()) continue;
    Leaf leaf{.key = key, .path = path_to(key), .used = node.used};
    for (const BlockKey& block : leaf.path) leaf.tokens += find_node(block)->tokens.size();
    leaf.root = find_node(leaf.path.front())->parent;
    leaves.push_back(std::move(leaf));
  }
  for (const Leaf& leaf : leaves) {
    for (const BlockKey& key : leaf.path) ++passes[key];
  }
  for (Leaf& leaf : leaves) {
    for (const BlockKey& key : leaf.path) {
      if (passes[key] > 1) leaf.shared_tokens += find_node(key)->tokens.size();
    }
  }
  return leaves;
}

void PrefixTree::remove(const BlockKey& key) {
  const auto found = nodes_.find(key);
  if (found == nodes_.end()) return;
  const auto siblings = children_.find(found->second.parent);
  std::erase(siblings->second, key);
  if (siblings->second.empty()) children_.erase(siblings);
  nodes_.erase(found);
}

}  // namespace artesian
