// Blocks on their way from the store to a slot file: read into memory of their own, verified there, and their rows
// written where they belong. The file is written, never mapped: pages that are filled whole need not be cleared before,
// and a folder that is full is an error and no signal.
//
// One thread writes while the other moves the store on: the kernel lets only one writer into a file at a time.
//
// Threads: any, several at once; a thread of the executor writes if it has time. Ownership: all that is handed in lives
// until the call returns. Errors: of the file alone; a block that is gone or broken is `lost`.
#pragma once

#include <atomic>
#include <mutex>
#include <span>

#include "artesian/store.h"
#include "base/executor.h"
#include "format/slot_file.h"
#include "gateway/prefix_tree.h"
#include "platform/arena.h"
#include "platform/file.h"

namespace artesian {

struct BlockRead {
  PrefixTree::Step step;
  bool arrived = false;  // its rows are in the file
  bool lost = false;     // the store has it no more
};

// Until a batch of the store's has set `done` in its callback.
void wait_until(Store& store, const std::atomic<bool>& done);

class BlockReader {
 public:
  // For blocks of at most so many bytes.
  BlockReader(Store& store, NamespaceId ns, std::uint64_t block_bytes);

  // Takes and touches the memory of one call ahead of it: that can last longer than to read as much.
  Status warm();
  Status read(const SlotFile& file, const File& out, std::span<BlockRead> blocks, Executor& helper);

 private:
  Result<Arena> take();
  void give_back(Arena memory);

  Store& store_;
  const NamespaceId ns_;
  const std::uint64_t room_;   // bytes for a block
  const std::uint64_t batch_;  // blocks
  std::mutex mutex_;
  Arena kept_;  // guarded; of the last call that ended
};

}  // namespace artesian
