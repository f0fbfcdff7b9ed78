// A store on files, directories or block devices: made, resized, opened and locked. The composition root of the engine
// for programs that embed it: here it gets its device, its clock and its random numbers.
//
// Threads: as Store. Ownership: the returned store owns device and clock; the lock is held until it goes, and until the
// last write of a process that was killed has ended. Errors name the path and say what it takes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "artesian/store.h"
#include "store/engine.h"

namespace artesian {

struct StorePath {
  std::string path;         // a file, a block device, or a folder (then: artesian.store in it)
  std::uint64_t bytes = 0;  // its cap, metadata included; opening: 0 leaves it as it is
};

struct StoreFilesOptions {
  std::vector<StorePath> paths;
  StoreGeometry geometry;  // of a new store
  std::string key_file;    // see store_key.h: the store is, or is to be, encrypted with that key; empty: it is not
  EngineSettings engine;
  std::uint32_t queue_depth_max = 64;
  const Clock* clock = nullptr;  // of the store, for a replay in another time; must outlive it. None: the machine's
  Nanos lock_patience = std::chrono::seconds(2);  // for an owner that was killed to be gone altogether
};

// Makes an empty store. Refuses files that are not empty unless `overwrite`. Space is taken at once.
Status create_store(const StoreFilesOptions& options, bool overwrite);

// The cap of a path that has room for so many segments and no more.
std::uint64_t store_cap_of(const StoreGeometry& geometry, std::uint64_t segments);

// Opens one; with a wrong key it is refused before anything is changed. A cap smaller than the file cuts it, a larger
// one lengthens it, before this returns; what lay in a part that was cut is gone. rejected if another process (or this
// one) has it open.
Result<std::unique_ptr<Store>> open_store(const StoreFilesOptions& options);
Result<std::unique_ptr<Engine>> open_engine(const StoreFilesOptions& options);  // the same, for who looks after it

// Where the owner of the store in that path answers questions: a socket beside its file; empty for a block device.
std::string control_socket_of(const StorePath& path);
// Where it takes other processes that use the store, if it shares it; likewise.
std::string attach_socket_of(const StorePath& path);

}  // namespace artesian
