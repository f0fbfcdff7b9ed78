// The contexts of one model in one setting, in the store: slot files taken apart into blocks, and put together again.
// What many conversations begin with is stored once.
//
// Threads: every call from any thread; look_up() and find() answer from memory, the others block on I/O and belong on a
// worker. Ownership: the store is the caller's and lives longer. Units: tokens, bytes. Errors: a block that is gone or
// broken shortens what is restored; it is never an error.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "artesian/store.h"
#include "base/executor.h"
#include "format/slot_file.h"
#include "gateway/block_reader.h"
#include "gateway/prefix_tree.h"

namespace artesian {

struct Restored {
  std::size_t tokens = 0;   // 0: there is nothing, and no file
  std::uint64_t bytes = 0;  // of the slot file
};

struct Kept {
  std::size_t new_tokens = 0;
  std::uint64_t new_bytes = 0;
  std::size_t refused_tokens = 0;  // beyond the budget, or shed by the store
  std::optional<BlockKey> end;     // the last block of it that is kept
};

// A conversation that is kept, up to where nothing goes on from it.
struct ContextFacts {
  std::string id;
  std::size_t tokens = 0, shared_tokens = 0;
  std::uint64_t bytes = 0;
  bool pinned = false;
  Nanos used{0};  // on the store's clock; 0: not since this was opened
};

class Contexts {
 public:
  // Reads from the store what is kept of this namespace. `fields` say all but the block size, which follows from the
  // layout. Pins are remembered in a file of our own; empty: they end with this.
  static Result<std::unique_ptr<Contexts>> open(Store& store, NamespaceFields fields, SlotLayout layout,
                                                const std::string& pins_file);

  // How many tokens of the beginning are kept under a tenant's root. A prompt is looked up once, when it comes: the
  // store's policies learn from that what is wanted. find() may be asked at any time.
  std::size_t look_up(const BlockKey& root, std::span<const Token> tokens);
  std::size_t find(const BlockKey& root, std::span<const Token> tokens);

  // Writes a slot file of what is kept of `tokens` to `path`, for a server with so many streams. Every row in it comes
  // from a verified block. At most `bytes_max`; longer contexts are cut to that. A thread of `helper` helps.
  Result<Restored> restore(const BlockKey& root, std::span<const Token> tokens, std::uint32_t streams,
                           const std::string& path, std::uint64_t bytes_max, Executor& helper);

  // Brings what is kept of `tokens` into the store's memory, as far as it takes them; how many blocks are there.
  std::size_t stage(const BlockKey& root, std::span<const Token> tokens);

  // Stores what of this slot file, parsed from `bytes`, is not there yet, as long as no more than `budget` bytes are
  // written; of `hints` session and next use go with the blocks. rejected if its layout is another one.
  Result<Kept> keep(const BlockKey& root, const SlotFile& file, std::span<const std::byte> bytes, std::uint64_t budget,
                    const BlockHints& hints = {});

  // What is to come of a conversation that ends in this block. Of one that has ended, no more than others need, too.
  void expect(const BlockKey& end, Outlook outlook);

  // Those of a tenant, or of all.
  std::vector<ContextFacts> list(const std::optional<BlockKey>& root) const;
  // Erases what only this one needs. not_found if there is none of that name (of this tenant).
  Status erase(const std::string& id, const std::optional<BlockKey>& root);
  // A pinned one is not evicted until it is unpinned, also not as the beginning of a longer one, nor after a restart.
  Status pin(const std::string& id, const std::optional<BlockKey>& root, bool pinned);

  const SlotLayout& layout() const { return layout_; }
  std::size_t blocks() const;

 private:
  Contexts(Store& store, NamespaceId ns, SlotLayout layout, std::uint32_t block_tokens, std::string pins_file)
      : store_(store),
        ns_(ns),
        layout_(std::move(layout)),
        pins_file_(std::move(pins_file)),
        reader_(store, ns, block_tokens * layout_.token_bytes()),
        tree_(block_tokens) {}

  Result<PrefixTree::Leaf> find_leaf(const std::string& id, const std::optional<BlockKey>& root) const;
  PrefixTree::Match find_stored(const BlockKey& root, std::span<const Token> tokens);
  void cut_off(PrefixTree::Match& match, std::size_t there);
  Result<std::size_t> write_file(const PrefixTree::Match& match, std::span<const Token> tokens, std::uint32_t streams,
                                 const std::string& path, Executor& helper);
  void forget(std::span<const BlockKey> keys);
  bool hold(const BlockKey& key);
  void let_go(const BlockKey& key);
  Status remember_pins() const;
  Result<Kept> put_blocks(std::span<const PrefixTree::NewBlock> blocks, const SlotFile& file,
                          std::span<const std::byte> bytes, const BlockHints& hints);

  Store& store_;
  const NamespaceId ns_;
  const SlotLayout layout_;
  const std::string pins_file_;
  BlockReader reader_;
  std::string pins_name_;  // of this namespace's in the file
  mutable std::mutex mutex_;
  PrefixTree tree_;                                 // guarded by mutex_, which is not held during I/O
  std::map<BlockKey, std::vector<BlockKey>> pins_;  // of each end of one, the blocks pinned for it; guarded, too
};

}  // namespace artesian
