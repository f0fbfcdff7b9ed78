// Blocks on their way from the store to a slot file: read into memory of their own, verified there, and their rows
// written where they belong. The file is written, never mapped: pages that are filled whole need not be cleared before,
// and a folder that is full is an error and no signal.
//
// Threads: any, one call for one file; a thread of the executor helps as soon and as long as it can. Ownership: all
// that is handed in lives until the call returns. Errors: of the file alone; a block that is gone or broken is `lost`.
#pragma once

#include <atomic>
#include <span>

#include "artesian/store.h"
#include "base/executor.h"
#include "format/slot_file.h"
#include "gateway/prefix_tree.h"
#include "platform/file.h"

namespace artesian {

struct BlockRead {
  PrefixTree::Step step;
  bool arrived = false;  // its rows are in the file
  bool lost = false;     // the store has it no more
};

// Until a batch of the store's has set `done` in its callback.
void wait_until(Store& store, const std::atomic<bool>& done);

Status read_blocks(Store& store, NamespaceId ns, const SlotFile& file, const File& out, std::span<BlockRead> blocks,
                   Executor& helper);

}  // namespace artesian
