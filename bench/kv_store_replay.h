// Runs a request trace through a real store on a real disk, in the trace's time for the policies and in the disk's for
// the bytes: each prompt is looked up, what is there is read and checked byte for byte, what is missing is put.
#pragma once

#include <filesystem>
#include <functional>

#include "base/units.h"
#include "bench/kv_replay.h"

namespace artesian::bench {

struct KvStoreReplaySettings {
  KvReplaySettings replay;  // block counts, budget, segments
  std::vector<std::string> policies = {"shared", "worth+arrival", "second-sighting+clock", "chats"};  // of a namespace
  std::filesystem::path folder = ".";    // for a scratch file, which is removed again
  std::uint64_t block_bytes = 64 * KiB;  // that stand for 512 tokens
};

// Rows as replay_kv gives them, LRU's without I/O first; what is written counts all that went to the disk, headers and
// frames too, in records of one block. Code::corrupt if a block came back with other bytes.
Result<std::vector<KvReplayCase>> replay_kv_store(const KvTrace& trace, const KvStoreReplaySettings& settings,
                                                  const std::function<void(double part)>& progress);

}  // namespace artesian::bench
