#include "store/layout.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "format/record.h"
#include "platform/arena.h"
#include "store/blocking_io.h"

namespace artesian {
namespace {

constexpr std::uint64_t table_bytes = namespace_slots * 2 * store_page;

Result<Superblock> read_superblock(BlockingIo& io, FileIndex file, std::span<std::byte> page) {
  Result<Superblock> best = fail(Code::not_found, "path {}: there is no store of Artesian's", file);
  for (const std::uint64_t offset : superblock_offsets) {
    Result<Superblock> copy = fail(Code::corrupt, "");
    if (auto read = io.read(file, offset, page); !read) {
      copy = fail(std::move(read.error()));
    } else {
      copy = parse_superblock(page);
    }
    if (copy && (!best || copy->revision > best->revision)) {
      best = std::move(copy);
    } else if (!copy && !best && copy.error().code != Code::not_found) {
      best = fail(copy.error().code, "path {}: offset {}: {}", file, offset, copy.error().message);
    }
  }
  return best;
}

void take_slot(OpenedStore& store, std::uint32_t index, const NamespaceSlot& slot) {
  NamespaceSlot& have = store.namespaces[index];
  if (have.epoch != 0 && have.epoch != slot.epoch) store.old_slots.insert(index);
  // Epochs only rise; where paths disagree (one was away when a namespace was erased), the later one counts.
  if (slot.epoch > have.epoch || (slot.epoch == have.epoch && slot.revision > have.revision)) have = slot;
  store.generation = std::max(store.generation, slot.epoch);
}

Status read_namespaces(BlockingIo& io, const OpenedPath& path, std::span<std::byte> table, OpenedStore& store) {
  if (auto read = io.read(path.file, namespace_table_offset, table); !read) return read;
  for (std::uint32_t slot = 0; slot < namespace_slots; ++slot) {
    for (std::uint32_t copy = 0; copy < 2; ++copy) {
      const auto page = table.subspan((slot * 2 + copy) * store_page, store_page);
      const auto parsed = parse_namespace_slot(page, path.superblock.store, store.sealer.get());
      if (parsed) take_slot(store, slot, *parsed);
    }
  }
  return {};
}

// Of the copies on all paths the latest one counts.
Status read_pins(BlockingIo& io, const OpenedPath& path, std::span<std::byte> table, OpenedStore& store) {
  const auto pages = table.first(pin_slots * 2 * store_page);
  if (auto read = io.read(path.file, pin_table_offset, pages); !read) return read;
  for (std::uint32_t at = 0; at < pin_slots * 2; ++at) {
    auto parsed = parse_pin_slot(pages.subspan(at * store_page, store_page), path.superblock.store, store.sealer.get());
    PinSlot& have = store.pins[at / 2];
    if (parsed && parsed->revision > have.revision) have = std::move(*parsed);
  }
  return {};
}

// Why a path cannot be one of those that are there already.
Status check_path(const OpenedStore& store, const OpenedPath& path, std::uint64_t file_bytes) {
  const Superblock& superblock = path.superblock;
  if (superblock.file_bytes() > file_bytes) {
    return fail(Code::corrupt, "path {}: has {} bytes, its superblock says {}", path.file, file_bytes,
                superblock.file_bytes());
  }
  for (const OpenedPath& other : store.paths) {
    if (other.superblock.store != superblock.store) {
      return fail(Code::invalid, "path {}: belongs to another store than path {}", path.file, other.file);
    }
    if (other.superblock.path_index == superblock.path_index || other.superblock.path == superblock.path) {
      return fail(Code::invalid, "path {}: is path {} of the store once more", path.file, other.file);
    }
  }
  return {};
}

}  // namespace

std::uint64_t block_bytes_that_fit(std::uint64_t segment_bytes) {
  const std::uint64_t most_header =
      record_header_pages(key_bytes_limit, key_bytes_limit, attribute_bytes_limit, extents_limit, true);
  const std::uint64_t frame = (3 + most_header) * store_page;
  return std::min(block_bytes_limit, segment_bytes - frame);
}

StoreGeometry chosen_geometry(StoreGeometry geometry, std::uint64_t cap) {
  if (geometry.segment_bytes == 0) {
    geometry.segment_bytes = std::clamp(std::bit_floor(cap / 32), 4 * MiB, 256 * MiB);
    // Where the largest block was named, it must fit.
    while (geometry.segment_bytes < 256 * MiB && geometry.segment_bytes < 2 * geometry.block_bytes_max) {
      geometry.segment_bytes *= 2;
    }
  }
  if (geometry.block_bytes_max == 0) {
    geometry.block_bytes_max = std::max(store_page, std::min(16 * MiB, geometry.segment_bytes / 2));
  }
  return geometry;
}

Status write_superblock(Device& device, FileIndex file, const Superblock& superblock) {
  BlockingIo io(device);
  auto page = Arena::reserve(store_page);
  if (!page) return fail(std::move(page.error()));
  encode_superblock(superblock, page->span());
  for (const std::uint64_t offset : superblock_offsets) {
    if (auto written = io.write(file, offset, page->span()); !written) return written;
    if (auto flushed = io.flush(file); !flushed) return flushed;
  }
  return {};
}

Status format_store(Device& device, const StoreGeometry& geometry, const StoreIdentity& identity) {
  const auto& facts = device.facts();
  BlockingIo io(device);
  auto zeros = Arena::reserve(store_data_offset);
  if (!zeros) return fail(std::move(zeros.error()));
  for (FileIndex file = 0; file < facts.file_bytes.size(); ++file) {
    Superblock superblock{.store = identity.store, .path = identity.paths.at(file)};
    superblock.path_index = file;
    superblock.path_count = static_cast<std::uint32_t>(facts.file_bytes.size());
    superblock.segment_bytes = geometry.segment_bytes;
    superblock.block_bytes_max = geometry.block_bytes_max;
    superblock.write_bytes_per_day = geometry.write_bytes_per_day;
    superblock.secret = identity.secret;
    if (identity.encryption != nullptr) {
      const auto fingerprint = key_fingerprint(*identity.encryption);
      if (!fingerprint) return fail(fingerprint.error());
      superblock.encrypted = true;
      superblock.key_fingerprint = *fingerprint;
    }
    const std::uint64_t data = facts.file_bytes[file] - std::min(facts.file_bytes[file], superblock.data_offset);
    superblock.segments = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(data / std::max<std::uint64_t>(geometry.segment_bytes, 1), segments_limit));
    if (auto checked = check_superblock(superblock); !checked) return checked;
    if (geometry.block_bytes_max > block_bytes_that_fit(geometry.segment_bytes)) {
      return fail(Code::invalid, "blocks of up to {} do not fit into segments of {}",
                  format_size(geometry.block_bytes_max), format_size(geometry.segment_bytes));
    }
    // Superblocks last: until then this is no store.
    if (auto written = io.write(file, 0, zeros->span()); !written) return written;
    if (auto flushed = io.flush(file); !flushed) return flushed;
    if (auto written = write_superblock(device, file, superblock); !written) return written;
  }
  return {};
}

namespace {

// The sealer of the store, once it is known, and the secret that comes from it.
Status unlock(Superblock& superblock, const StoreKeys* keys, std::shared_ptr<Sealer>& sealer) {
  if (auto checked = check_key(superblock, keys != nullptr ? &keys->key : nullptr); !checked) return checked;
  if (keys == nullptr) return {};
  if (sealer == nullptr) {
    auto made = Sealer::make(keys->key, superblock.store, keys->randomness);
    if (!made) return fail(std::move(made.error()));
    sealer = std::move(*made);
  }
  superblock.secret = sealer->hash_secret();
  return {};
}

}  // namespace

Result<OpenedStore> open_store_layout(Device& device, const StoreKeys* keys,
                                      const std::function<void(std::string_view)>& report) {
  BlockingIo io(device);
  auto memory = Arena::reserve(table_bytes);
  if (!memory) return fail(std::move(memory.error()));
  OpenedStore store;
  store.namespaces.resize(namespace_slots);
  store.pins.resize(pin_slots);
  Error first{.code = Code::invalid, .message = "a store needs at least one path"};
  const auto& facts = device.facts();
  for (FileIndex file = 0; file < facts.file_bytes.size(); ++file) {
    const auto use = [&]() -> Status {
      auto superblock = read_superblock(io, file, memory->span().first(store_page));
      if (!superblock) return fail(std::move(superblock.error()));
      OpenedPath path{.file = file, .superblock = std::move(*superblock)};
      if (auto checked = check_path(store, path, facts.file_bytes[file]); !checked) return checked;
      if (auto unlocked = unlock(path.superblock, keys, store.sealer); !unlocked) return unlocked;
      if (auto read = read_namespaces(io, path, memory->span(), store); !read) return read;
      if (auto read = read_pins(io, path, memory->span(), store); !read) return read;
      store.generation = std::max(store.generation, path.superblock.generation);
      store.paths.push_back(std::move(path));
      return {};
    };
    auto used = use();
    if (used) continue;
    if (report) report(used.error().message + "; its blocks are not there");
    if (first.code == Code::invalid) first = std::move(used.error());
  }
  if (store.paths.empty()) return fail(std::move(first));
  if (store.sealer != nullptr) {
    for (std::uint32_t slot = 0; slot < namespace_slots; ++slot) {
      const NamespaceSlot& ns = store.namespaces[slot];
      if (ns.epoch != 0)
        store.sealer->use_namespace({.slot = static_cast<std::uint16_t>(slot), .epoch = ns.epoch}, ns.key);
    }
  }
  return store;
}

}  // namespace artesian
