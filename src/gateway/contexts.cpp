#include "gateway/contexts.h"

#include <algorithm>
#include <cstring>

#include "platform/shared_mapping.h"

namespace artesian {
namespace {

// At most so many bytes are read or written in one batch, so that the store's buffers are enough.
constexpr std::size_t batch_blocks = 32;

std::span<const std::byte> bytes_of(const BlockKey& key) {
  return key;
}

// As people see it.
std::string name_of(const BlockKey& key) {
  std::string name;
  for (std::size_t i = 0; i < 8; ++i) name += fmt::format("{:02x}", static_cast<unsigned>(key[i]));
  return name;
}

Result<BlockKey> key_of(std::span<const std::byte> bytes) {
  BlockKey key{};
  if (bytes.size() != key.size()) return fail(Code::corrupt, "contexts: a key of {} bytes", bytes.size());
  std::ranges::copy(bytes, key.begin());
  return key;
}

Status add_facts(PrefixTree& tree, const BlockFacts& facts, const SlotLayout& layout) {
  const auto key = key_of(facts.key);
  const auto parent = key_of(facts.parent);
  if (!key || !parent) return fail(Code::corrupt, "contexts: a block's key has another size");
  std::vector<Token> tokens(facts.attributes.size() / sizeof(Token));
  std::memcpy(tokens.data(), facts.attributes.data(), tokens.size() * sizeof(Token));
  if (facts.bytes != tokens.size() * layout.token_bytes()) {
    return fail(Code::corrupt, "contexts: a block of {} tokens has {} bytes", tokens.size(), facts.bytes);
  }
  return tree.add(*key, *parent, tokens);
}

}  // namespace

std::vector<ContextFacts> Contexts::list(const std::optional<BlockKey>& root) const {
  const std::scoped_lock lock(mutex_);
  std::vector<ContextFacts> all;
  for (const auto& leaf : tree_.leaves()) {
    if (root && leaf.root != *root) continue;
    all.push_back({.id = name_of(leaf.key),
                   .tokens = leaf.tokens,
                   .shared_tokens = leaf.shared_tokens,
                   .bytes = leaf.tokens * layout_.token_bytes(),
                   .pinned = pins_.contains(leaf.key),
                   .used = leaf.used});
  }
  std::ranges::sort(all, std::greater{}, &ContextFacts::used);
  return all;
}

Result<PrefixTree::Leaf> Contexts::find_leaf(const std::string& id, const std::optional<BlockKey>& root) const {
  const std::scoped_lock lock(mutex_);
  for (auto& leaf : tree_.leaves()) {
    if (name_of(leaf.key) == id && (!root || leaf.root == *root)) return std::move(leaf);
  }
  return fail(Code::not_found, "there is no context {}", id);
}

Status Contexts::erase(const std::string& id, const std::optional<BlockKey>& root) {
  if (auto unpinned = pin(id, root, false); !unpinned) return unpinned;
  const auto leaf = find_leaf(id, root);
  if (!leaf) return fail(leaf.error());
  std::vector<BlockKey> own;
  {
    const std::scoped_lock lock(mutex_);
    for (auto key = leaf->path.rbegin(); key != leaf->path.rend() && tree_.is_leaf(*key); ++key) {
      own.push_back(*key);
      tree_.remove(*key);
    }
  }
  std::vector<Probe> probes;
  for (const BlockKey& key : own) probes.push_back({.key = bytes_of(key)});
  store_.erase(ns_, probes);
  return store_.flush();
}

Status Contexts::pin(const std::string& id, const std::optional<BlockKey>& root, bool pinned) {
  const auto leaf = find_leaf(id, root);
  if (!leaf) return fail(leaf.error());
  std::vector<BlockKey> before;
  {
    const std::scoped_lock lock(mutex_);
    if (auto node = pins_.extract(leaf->key)) before = std::move(node.mapped());
  }
  std::vector<std::span<const std::byte>> keys;
  for (const BlockKey& key : before) keys.push_back(bytes_of(key));
  store_.unpin(ns_, keys);
  if (!pinned) return {};
  std::vector<Probe> probes;
  for (const BlockKey& key : leaf->path) probes.push_back({.key = bytes_of(key)});
  store_.pin(ns_, probes);
  std::vector<BlockKey> held;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    if (probes[i].outcome == Outcome::hit) held.push_back(leaf->path[i]);
  }
  const std::scoped_lock lock(mutex_);
  const bool all = held.size() == leaf->path.size();
  pins_[leaf->key] = std::move(held);
  if (!all) return fail(Code::rejected, "{}: not all of it could be pinned; too much is", id);
  return {};
}

Result<std::unique_ptr<Contexts>> Contexts::open(Store& store, NamespaceFields fields, SlotLayout layout) {
  fields.layout = layout.text();
  fields.block_tokens = choose_block_tokens(layout.token_bytes());
  const auto ns = store.open_namespace(fields);
  if (!ns) return fail(ns.error());
  std::unique_ptr<Contexts> contexts(new Contexts(store, *ns, std::move(layout), fields.block_tokens));
  std::vector<std::vector<std::byte>> broken;
  const auto add = [&](const BlockFacts& facts) {
    if (auto ok = add_facts(contexts->tree_, facts, contexts->layout_); !ok) broken.push_back(facts.key);
    return true;
  };
  if (auto listed = store.list(*ns, add); !listed) return fail(std::move(listed.error()));
  for (const auto& key : broken) {
    Probe probe{.key = key};
    store.erase(*ns, std::span(&probe, 1));
  }
  return contexts;
}

std::size_t Contexts::blocks() const {
  const std::scoped_lock lock(mutex_);
  return tree_.size();
}

// What the tree says, cut off where the store has lost a block since.
PrefixTree::Match Contexts::find_stored(const BlockKey& root, std::span<const Token> tokens) {
  const std::scoped_lock lock(mutex_);
  PrefixTree::Match match = tree_.find(root, tokens);
  std::vector<std::span<const std::byte>> keys;
  for (const auto& step : match.steps) keys.push_back(bytes_of(step.key));
  const std::size_t there = store_.longest_prefix(ns_, keys);
  if (there < match.steps.size()) {
    tree_.remove(match.steps[there].key);
    match.steps.resize(there);
  }
  tree_.touch(match, store_.now());
  return match;
}

std::size_t Contexts::find(const BlockKey& root, std::span<const Token> tokens) {
  return find_stored(root, tokens).tokens();
}

void Contexts::forget(std::span<const BlockKey> keys) {
  const std::scoped_lock lock(mutex_);
  for (const BlockKey& key : keys) tree_.remove(key);
}

// Reads the blocks to where they belong; how many tokens, from the first on, arrived.
Result<std::size_t> Contexts::read_blocks(const PrefixTree::Match& match, const SlotFile& file,
                                          std::span<std::byte> out) {
  std::vector<std::byte> scratch(scratch_bytes(layout_, tree_.block_tokens()));
  std::vector<std::vector<std::span<std::byte>>> places;
  std::vector<Get> gets;
  for (const auto& step : match.steps) {
    places.push_back(block_places(file, out, step.first, step.used, step.count, scratch));
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    gets.push_back({.key = bytes_of(match.steps[i].key), .pieces = places[i]});
  }
  for (std::size_t i = 0; i < gets.size(); i += batch_blocks) {
    store_.get(ns_, std::span(gets).subspan(i, std::min(batch_blocks, gets.size() - i)));
  }
  std::size_t tokens = 0;
  bool whole = true;
  std::vector<BlockKey> lost;
  for (std::size_t i = 0; i < gets.size(); ++i) {
    const auto& step = match.steps[i];
    const bool good = gets[i].outcome == Outcome::hit && gets[i].bytes == step.count * layout_.token_bytes();
    if (gets[i].outcome == Outcome::miss || gets[i].outcome == Outcome::corrupt) lost.push_back(step.key);
    whole = whole && good;
    if (whole) tokens = step.first + step.used;
  }
  forget(lost);
  return tokens;
}

Result<Restored> Contexts::restore(const BlockKey& root, std::span<const Token> tokens, std::uint32_t streams,
                                   const std::string& path, std::uint64_t bytes_max) {
  const std::uint64_t fixed = slot_file_bytes(layout_, streams, 0);
  const std::uint64_t each = slot_file_bytes(layout_, streams, 1) - fixed;
  if (bytes_max <= fixed + each) return Restored{};
  tokens = tokens.first(std::min<std::size_t>(tokens.size(), (bytes_max - fixed) / each));
  // Where a block turns out to be lost, every row lies elsewhere: again with what is left, which is shorter each time.
  while (true) {
    const PrefixTree::Match match = find_stored(root, tokens);
    if (match.tokens() == 0) return Restored{};
    tokens = tokens.first(match.tokens());
    const std::uint64_t bytes = slot_file_bytes(layout_, streams, tokens.size());
    if (auto removed = remove_file(path); !removed) return fail(std::move(removed.error()));
    auto mapping = SharedMapping::open(path, bytes);
    if (!mapping) return fail(std::move(mapping.error()));
    const SlotFile file = write_slot_file(layout_, streams, tokens, mapping->bytes());
    const auto arrived = read_blocks(match, file, mapping->bytes());
    if (!arrived) return fail(arrived.error());
    if (*arrived == tokens.size()) return Restored{.tokens = tokens.size(), .bytes = bytes};
    if (auto removed = remove_file(path); !removed) return fail(std::move(removed.error()));
    tokens = tokens.first(*arrived);
  }
}

Result<Kept> Contexts::put_blocks(std::span<const PrefixTree::NewBlock> blocks, const SlotFile& file,
                                  std::span<const std::byte> bytes) {
  std::vector<std::vector<std::span<const std::byte>>> pieces;
  std::vector<Put> puts;
  for (const auto& block : blocks) pieces.push_back(block_pieces(file, bytes, block.first, block.count));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto own = std::span(file.tokens).subspan(blocks[i].first, blocks[i].count);
    puts.push_back({.key = bytes_of(blocks[i].key),
                    .parent = bytes_of(blocks[i].parent),
                    .attributes = std::as_bytes(own),
                    .pieces = pieces[i],
                    .hints = {.position = static_cast<std::uint32_t>(blocks[i].first / tree_.block_tokens()),
                              .tokens = static_cast<std::uint32_t>(own.size())}});
  }
  store_.put(ns_, puts);
  Kept kept;
  std::vector<BlockKey> replaced;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto& block = blocks[i];
    if (puts[i].outcome != Outcome::stored && puts[i].outcome != Outcome::present) {
      kept.refused_tokens += block.count;
      continue;
    }
    const std::scoped_lock lock(mutex_);
    const auto own = std::span(file.tokens).subspan(block.first, block.count);
    if (auto added = tree_.add(block.key, block.parent, own); !added) return fail(std::move(added.error()));
    kept.new_tokens += block.count;
    if (puts[i].outcome == Outcome::stored) kept.new_bytes += block.count * layout_.token_bytes();
    replaced.insert(replaced.end(), block.replaces.begin(), block.replaces.end());
  }
  forget(replaced);
  std::vector<Probe> probes;
  for (const BlockKey& key : replaced) probes.push_back({.key = bytes_of(key)});
  store_.erase(ns_, probes);
  return kept;
}

Result<Kept> Contexts::keep(const BlockKey& root, const SlotFile& file, std::span<const std::byte> bytes,
                            std::uint64_t budget) {
  if (file.layout != layout_) {
    return fail(Code::rejected, "contexts: the slot has layout '{}' and not '{}'", file.layout.text(), layout_.text());
  }
  find_stored(root, file.tokens);  // a block that the store has lost is missing again
  Result<std::vector<PrefixTree::NewBlock>> blocks = [&] {
    const std::scoped_lock lock(mutex_);
    return tree_.missing(root, file.tokens);
  }();
  if (!blocks) return fail(std::move(blocks.error()));
  Kept all;
  std::size_t taken = 0;
  while (taken < blocks->size() && all.refused_tokens == 0) {
    std::size_t end = taken;
    std::uint64_t batch_bytes = 0;
    while (end < blocks->size() && end - taken < batch_blocks) {
      const std::uint64_t block_bytes = (*blocks)[end].count * layout_.token_bytes();
      if (all.new_bytes + batch_bytes + block_bytes > budget) break;
      batch_bytes += block_bytes;
      ++end;
    }
    if (end == taken) break;
    const auto kept = put_blocks(std::span(*blocks).subspan(taken, end - taken), file, bytes);
    if (!kept) return fail(kept.error());
    all.new_tokens += kept->new_tokens;
    all.new_bytes += kept->new_bytes;
    all.refused_tokens += kept->refused_tokens;
    taken = end;
  }
  for (; taken < blocks->size(); ++taken) all.refused_tokens += (*blocks)[taken].count;
  return all;
}

}  // namespace artesian
