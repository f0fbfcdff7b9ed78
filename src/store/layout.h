// The fixed parts of a store's paths: superblocks and namespace tables, made and opened. A path is a file of the
// device, from its first byte to its last.
//
// Threads: none but the caller's; the device is nobody else's meanwhile. Errors name the path by its file number: who
// opened the device knows what it is called.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "format/pin_slot.h"

namespace artesian {

struct StoreGeometry {
  std::uint64_t segment_bytes = 0;        // 0: for create_store() to choose
  std::uint64_t block_bytes_max = 0;      // at most what a segment has room for; 0: as above
  std::uint64_t write_bytes_per_day = 0;  // budget of the store, all that is written counted; 0: no limit
};

// What is 0 chosen for paths of that cap: some 32 segments or more, 4 MiB to 256 MiB each, since two of them are kept
// free; and blocks of up to half a segment, 16 MiB at most.
StoreGeometry chosen_geometry(StoreGeometry geometry, std::uint64_t cap);

// Everything random about a store, from outside.
struct StoreIdentity {
  Id store{};
  std::vector<Id> paths;                  // one for each file of the device
  HashSecret secret{};                    // not used in an encrypted store
  const SecretKey* encryption = nullptr;  // the store's key, if it is to be encrypted
};

// With which an encrypted store is opened.
struct StoreKeys {
  SecretKey key;
  SecretKey randomness;  // new for each opening, see Sealer
};

// Writes an empty store over the files of the device, whose sizes are the caps. Durable when it returns well.
Status format_store(Device& device, const StoreGeometry& geometry, const StoreIdentity& identity);

struct OpenedPath {
  FileIndex file = 0;
  Superblock superblock;  // with the secret of the key hash, also where that is not on flash
};

struct OpenedStore {
  std::vector<OpenedPath> paths;          // those that are usable
  std::vector<NamespaceSlot> namespaces;  // by slot; an epoch of 0 where the slot is free
  std::vector<PinSlot> pins;              // by slot; no name where it is free
  std::uint64_t generation = 0;           // nothing that was written before is above
  std::shared_ptr<Sealer> sealer;         // of an encrypted store
  std::set<std::uint32_t> old_slots;      // of which a path still has a copy of before the namespace was erased
};

// Reads superblocks and namespace tables of all paths. A path that cannot be used is left out and said to `report`;
// with none left, the first one's error. `keys` if the store is encrypted, else null: invalid where that is wrong.
Result<OpenedStore> open_store_layout(Device& device, const StoreKeys* keys,
                                      const std::function<void(std::string_view)>& report);

// Writes the superblock of a path, one copy made durable before the other is touched.
Status write_superblock(Device& device, FileIndex file, const Superblock& superblock);

// The largest block that fits into a segment beside header page, its own header, an index entry and the footer.
std::uint64_t block_bytes_that_fit(std::uint64_t segment_bytes);

}  // namespace artesian
