#include "gateway/contexts.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/hex.h"
#include "gateway/block_reader.h"
#include "gateway/json_file.h"
#include "platform/arena.h"
#include "platform/file.h"
#include "platform/shared_mapping.h"

namespace artesian {
namespace {

// At most so many bytes are read or written in one batch, so that the store's buffers are enough.
constexpr std::size_t batch_blocks = 32;

std::span<const std::byte> bytes_of(const BlockKey& key) {
  return key;
}

// Nothing where it is something else than a key.
std::optional<BlockKey> key_in(const nlohmann::json& text) {
  BlockKey key{};
  if (!text.is_string() || !from_hex(text.get_ref<const std::string&>(), key)) return std::nullopt;
  return key;
}

// As people see it.
std::string name_of(const BlockKey& key) {
  return to_hex(std::span(key).first(8));
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
                   .pinned = std::ranges::any_of(leaf.path, [this](const auto& key) { return pins_.contains(key); }),
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

// Pins all that leads to this block; false if something could not be.
bool Contexts::hold(const BlockKey& key) {
  const auto path = [&] {
    const std::scoped_lock lock(mutex_);
    return tree_.path_to(key);
  }();
  std::vector<Probe> probes;
  for (const BlockKey& block : path) probes.push_back({.key = bytes_of(block)});
  store_.pin(ns_, probes);
  std::vector<BlockKey> held;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    if (probes[i].outcome == Outcome::hit) held.push_back(path[i]);
  }
  const bool all = !path.empty() && held.size() == path.size();
  const std::scoped_lock lock(mutex_);
  if (!held.empty()) pins_[key] = std::move(held);
  return all;
}

void Contexts::let_go(const BlockKey& key) {
  std::vector<BlockKey> before;
  {
    const std::scoped_lock lock(mutex_);
    if (auto node = pins_.extract(key)) before = std::move(node.mapped());
  }
  std::vector<std::span<const std::byte>> keys;
  for (const BlockKey& block : before) keys.push_back(bytes_of(block));
  store_.unpin(ns_, keys);
}

Status Contexts::remember_pins() const {
  if (pins_file_.empty()) return {};
  nlohmann::json all = read_json_file(pins_file_);
  nlohmann::json own = nlohmann::json::array();
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [key, blocks] : pins_) own.push_back(to_hex(key));
  }
  all[pins_name_] = std::move(own);
  return write_json_file(pins_file_, all);
}

Status Contexts::pin(const std::string& id, const std::optional<BlockKey>& root, bool pinned) {
  const auto leaf = find_leaf(id, root);
  if (!leaf) return fail(leaf.error());
  std::vector<BlockKey> before;
  {
    const std::scoped_lock lock(mutex_);
    std::ranges::copy_if(leaf->path, std::back_inserter(before),
                         [this](const auto& key) { return pins_.contains(key); });
  }
  for (const BlockKey& key : before) let_go(key);
  const bool all = !pinned || hold(leaf->key);
  if (pinned || !before.empty()) {
    if (auto remembered = remember_pins(); !remembered) return remembered;
  }
  if (!all) return fail(Code::rejected, "{}: not all of it could be pinned; too much is", id);
  return {};
}

Result<std::unique_ptr<Contexts>> Contexts::open(Store& store, NamespaceFields fields, SlotLayout layout,
                                                 const std::string& pins_file) {
  fields.layout = layout.text();
  fields.block_tokens = choose_block_tokens(layout.token_bytes());
  const auto ns = store.open_namespace(fields);
  if (!ns) return fail(ns.error());
  std::unique_ptr<Contexts> contexts(new Contexts(store, *ns, std::move(layout), fields.block_tokens, pins_file));
  const std::string name =
      fmt::format("{}\n{}\n{}\n{}\n{}", fields.model, fields.dtype, fields.weights, fields.adapter, fields.layout);
  const auto digest = sha256(std::as_bytes(std::span(name)));
  if (!digest) return fail(digest.error());
  contexts->pins_name_ = to_hex(*digest);
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
  const nlohmann::json pins = read_json_file(pins_file).value(contexts->pins_name_, nlohmann::json::array());
  for (const auto& text : pins) {
    if (const auto key = key_in(text)) contexts->hold(*key);
  }
  if (auto warmed = contexts->reader_.warm(); !warmed) return fail(std::move(warmed.error()));
  return contexts;
}

std::size_t Contexts::blocks() const {
  const std::scoped_lock lock(mutex_);
  return tree_.size();
}

// The store has lost the block behind the first so many.
void Contexts::cut_off(PrefixTree::Match& match, std::size_t there) {
  if (there >= match.steps.size()) return;
  tree_.remove(match.steps[there].key);
  match.steps.resize(there);
}

// What the tree says, cut off where the store has lost a block since.
PrefixTree::Match Contexts::find_stored(const BlockKey& root, std::span<const Token> tokens) {
  const std::scoped_lock lock(mutex_);
  PrefixTree::Match match = tree_.find(root, tokens);
  std::vector<Probe> probes;
  for (const auto& step : match.steps) probes.push_back({.key = bytes_of(step.key)});
  store_.exists(ns_, probes);
  const auto lost = std::ranges::find_if(probes, [](const Probe& probe) { return probe.outcome != Outcome::hit; });
  cut_off(match, static_cast<std::size_t>(lost - probes.begin()));
  return match;
}

std::size_t Contexts::find(const BlockKey& root, std::span<const Token> tokens) {
  return find_stored(root, tokens).tokens();
}

std::size_t Contexts::look_up(const BlockKey& root, std::span<const Token> tokens) {
  const std::scoped_lock lock(mutex_);
  PrefixTree::Match match = tree_.find(root, tokens);
  std::vector<std::span<const std::byte>> keys;
  for (const auto& step : match.steps) keys.push_back(bytes_of(step.key));
  cut_off(match, store_.longest_prefix(ns_, keys));
  tree_.touch(match, store_.now());
  return match.tokens();
}

void Contexts::forget(std::span<const BlockKey> keys) {
  const std::scoped_lock lock(mutex_);
  for (const BlockKey& key : keys) tree_.remove(key);
}

// Writes a file of all the blocks' tokens; how many of them, from the first on, arrived.
Result<std::size_t> Contexts::write_file(const PrefixTree::Match& match, std::span<const Token> tokens,
                                         std::uint32_t streams, const std::string& path, Executor& helper) {
  const std::uint64_t bytes = slot_file_bytes(layout_, streams, tokens.size());
  const auto memory = Arena::reserve(bytes);  // of which only what is not rows is touched
  if (!memory) return fail(memory.error());
  const auto outline = memory->span().first(bytes);
  const SlotFile file = write_slot_file(layout_, streams, tokens, outline);
  if (auto removed = remove_file(path); !removed) return fail(std::move(removed.error()));
  const auto out = File::open(path, {.write = true, .create = true});
  if (!out) return fail(out.error());
  std::vector<BlockRead> blocks;
  for (const auto& step : match.steps) blocks.push_back({.step = step});
  if (auto read = reader_.read(file, *out, blocks, helper); !read) return fail(std::move(read.error()));
  for (const SlotPart& part : parts_beside_rows(file)) {
    auto written = out->write(part.to, outline.subspan(part.from, part.bytes));
    if (!written) return fail(std::move(written.error()));
  }
  std::size_t arrived = 0;
  std::vector<BlockKey> lost;
  bool whole = true;
  for (const BlockRead& block : blocks) {
    if (block.lost) lost.push_back(block.step.key);
    whole = whole && block.arrived;
    if (whole) arrived = block.step.first + block.step.used;
  }
  forget(lost);
  return arrived;
}

Result<Restored> Contexts::restore(const BlockKey& root, std::span<const Token> tokens, std::uint32_t streams,
                                   const std::string& path, std::uint64_t bytes_max, Executor& helper) {
  const std::uint64_t fixed = slot_file_bytes(layout_, streams, 0);
  const std::uint64_t each = slot_file_bytes(layout_, streams, 1) - fixed;
  if (bytes_max <= fixed + each) return Restored{};
  tokens = tokens.first(std::min<std::size_t>(tokens.size(), (bytes_max - fixed) / each));
  // Where a block turns out to be lost, every row lies elsewhere: again with what is left, which is shorter each time.
  while (true) {
    const PrefixTree::Match match = find_stored(root, tokens);
    if (match.tokens() == 0) return Restored{};
    tokens = tokens.first(match.tokens());
    const auto arrived = write_file(match, tokens, streams, path, helper);
    if (!arrived) return fail(arrived.error());
    if (*arrived == tokens.size()) {
      return Restored{.tokens = tokens.size(), .bytes = slot_file_bytes(layout_, streams, tokens.size())};
    }
    tokens = tokens.first(*arrived);
  }
}

std::size_t Contexts::stage(const BlockKey& root, std::span<const Token> tokens) {
  const PrefixTree::Match match = find_stored(root, tokens);
  std::vector<Probe> probes;
  for (const auto& step : match.steps) probes.push_back({.key = bytes_of(step.key)});
  for (std::size_t at = 0; at < probes.size(); at += batch_blocks) {
    const auto own = std::span(probes).subspan(at, std::min(batch_blocks, probes.size() - at));
    std::atomic<bool> done = false;
    store_.stage(ns_, own, {.urgency = Urgency::staged}, [&done] { done = true; });
    wait_until(store_, done);
  }
  return static_cast<std::size_t>(std::ranges::count(probes, Outcome::hit, &Probe::outcome));
}

void Contexts::expect(const BlockKey& end, Outlook outlook) {
  std::vector<BlockKey> path;
  {
    const std::scoped_lock lock(mutex_);
    path = tree_.path_to(end);
    const auto shared = std::find_if(path.rbegin(), path.rend(), [&](const BlockKey& key) {
      return outlook == Outlook::ended && tree_.branches(key) > (key == end ? 0U : 1U);
    });
    path.erase(path.begin(), shared.base());
  }
  std::vector<std::span<const std::byte>> keys;
  for (const BlockKey& key : path) keys.push_back(bytes_of(key));
  store_.expect(ns_, keys, outlook);
}

Result<Kept> Contexts::put_blocks(std::span<const PrefixTree::NewBlock> blocks, const SlotFile& file,
                                  std::span<const std::byte> bytes, const BlockHints& hints) {
  std::vector<std::vector<std::span<const std::byte>>> pieces;
  std::vector<Put> puts;
  for (const auto& block : blocks) pieces.push_back(block_pieces(file, bytes, block.first, block.count));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto own = std::span(file.tokens).subspan(blocks[i].first, blocks[i].count);
    puts.push_back({.key = bytes_of(blocks[i].key),
                    .parent = bytes_of(blocks[i].parent),
                    .attributes = std::as_bytes(own),
                    .pieces = pieces[i],
                    .hints = {.session = hints.session,
                              .position = static_cast<std::uint32_t>(blocks[i].first / tree_.block_tokens()),
                              .tokens = static_cast<std::uint32_t>(own.size()),
                              .next_use_ms = hints.next_use_ms}});
  }
  store_.put(ns_, puts);
  Kept kept;
  std::vector<BlockKey> replaced;
  std::vector<std::pair<BlockKey, BlockKey>> grown;  // ends of pinned ones, and what they are now
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
    for (const BlockKey& old : block.replaces) {
      if (pins_.contains(old)) grown.emplace_back(old, block.key);
    }
  }
  for (const auto& [old, now] : grown) {
    let_go(old);
    hold(now);
  }
  if (!grown.empty()) {
    if (auto remembered = remember_pins(); !remembered) return fail(std::move(remembered.error()));
  }
  forget(replaced);
  std::vector<Probe> probes;
  for (const BlockKey& key : replaced) probes.push_back({.key = bytes_of(key)});
  store_.erase(ns_, probes);
  return kept;
}

Result<Kept> Contexts::keep(const BlockKey& root, const SlotFile& file, std::span<const std::byte> bytes,
                            std::uint64_t budget, const BlockHints& hints) {
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
    const auto kept = put_blocks(std::span(*blocks).subspan(taken, end - taken), file, bytes, hints);
    if (!kept) return fail(kept.error());
    all.new_tokens += kept->new_tokens;
    all.new_bytes += kept->new_bytes;
    all.refused_tokens += kept->refused_tokens;
    taken = end;
  }
  for (; taken < blocks->size(); ++taken) all.refused_tokens += (*blocks)[taken].count;
  const std::scoped_lock lock(mutex_);
  const PrefixTree::Match match = tree_.find(root, file.tokens);
  tree_.touch(match, store_.now());
  if (!match.steps.empty()) all.end = match.steps.back().key;
  return all;
}

}  // namespace artesian
