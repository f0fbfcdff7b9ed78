// A store's blocks in one file, to be taken to another store: exported from an open one, imported into an open one. As
// docs/format.md lays it out; every block is read and verified on its way out, and has a checksum of its own on its way
// in. The file is plain, also where the store is encrypted.
//
// Threads: none but the caller's. Errors name the file and the offset.
#pragma once

#include <functional>

#include "platform/file.h"
#include "store/engine.h"

namespace artesian {

struct ArchiveReport {
  std::uint64_t namespaces = 0;
  std::uint64_t blocks = 0, of = 0;  // moved so far; of how many, where that is known
  std::uint64_t bytes = 0;           // of the file so far
  std::uint64_t of_bytes = 0;        // of the file, where it is known
  std::uint64_t lost = 0;            // export: could not be read; import: not taken by the store
  std::uint64_t present = 0;         // import: were there already
};
using ArchiveProgress = std::function<void(const ArchiveReport&)>;

// All namespaces, to a file that is empty.
Result<ArchiveReport> export_store(Engine& store, const File& file, const ArchiveProgress& progress);

// corrupt where the file is damaged or ends too soon: what came before is in the store.
Result<ArchiveReport> import_store(Engine& store, const File& file, const ArchiveProgress& progress);

}  // namespace artesian
