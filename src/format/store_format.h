// The KV store on flash, format 2 (docs/format.md): what all of it shares, the superblock of a path, the slots of its
// namespace table, and the hash that a block is found under. Bytes in, facts out; every byte read is taken for hostile.
//
// Threads: pure functions and values. Sizes in bytes, pages of 4 KiB. Errors: corrupt with a sentence that the caller
// puts path and offset in front of, invalid for what must not be written.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "artesian/namespace.h"
#include "base/aes_gcm.h"
#include "base/key_hash.h"
#include "base/result.h"
#include "base/sha256.h"
#include "base/units.h"

namespace artesian {

class Sealer;
struct Seal;

// Format 1 is format 2 without encryption and pins; it is opened, and made format 2 by that.
constexpr std::uint32_t store_format_version = 2;
constexpr std::uint64_t store_page = 4096;
constexpr std::uint64_t block_bytes_limit = 64 * MiB;
constexpr std::size_t key_bytes_limit = 255;
// Whether a block can be kept under it.
inline bool is_key(std::span<const std::byte> key) {
  return !key.empty() && key.size() <= key_bytes_limit;
}
constexpr std::size_t attribute_bytes_limit = 1024;
constexpr std::uint32_t extents_limit = 1024;

constexpr std::uint64_t superblock_offsets[] = {0, 64 * KiB};
constexpr std::uint64_t namespace_table_offset = 128 * KiB;
constexpr std::uint32_t namespace_slots = 128;  // two pages each
constexpr std::uint64_t store_data_offset = 2 * MiB;

constexpr std::uint64_t segment_bytes_min = 64 * KiB;
constexpr std::uint64_t segment_bytes_limit = 16 * GiB;
constexpr std::uint32_t segments_min = 4;
constexpr std::uint32_t segments_limit = 1U << 24;

constexpr std::uint64_t pages_of(std::uint64_t bytes) {
  return (bytes + store_page - 1) / store_page;
}

using Id = std::array<std::byte, 16>;
using NamespaceDigest = Sha256;
using HashSecret = std::array<std::byte, 192>;

struct Superblock {
  std::uint64_t revision = 1;
  Id store{}, path{};
  std::uint32_t path_index = 0, path_count = 1;
  std::uint64_t data_offset = store_data_offset;
  std::uint64_t segment_bytes = 128 * MiB;
  std::uint32_t segments = 0;
  std::uint64_t block_bytes_max = block_bytes_limit;
  std::uint64_t generation = 0;  // reached when it was written
  HashSecret secret{};
  std::uint64_t written_bytes = 0;        // to the whole store since it was made, as far as known when this was written
  std::uint64_t made_ms = 0;              // Unix time from which they count; 0: not known
  std::uint64_t write_bytes_per_day = 0;  // budget of the whole store; 0: no limit
  bool encrypted = false;                 // then the secret is not on flash but derived from the key
  Sha256 key_fingerprint{};               // SHA-256 of the key

  std::uint64_t file_bytes() const { return data_offset + segments * segment_bytes; }
  std::uint64_t segment_offset(std::uint32_t segment) const { return data_offset + segment * segment_bytes; }
  std::uint32_t segment_pages() const { return static_cast<std::uint32_t>(segment_bytes / store_page); }
};

// `invalid` with a sentence if the geometry is not one that format 1 knows.
Status check_superblock(const Superblock& superblock);
void encode_superblock(const Superblock& superblock, std::span<std::byte> page);
Result<Superblock> parse_superblock(std::span<const std::byte> page);

// Whether the store is opened with that key, or none (null): invalid with a sentence that names fingerprints alone.
Status check_key(const Superblock& superblock, const SecretKey* key);
Result<Sha256> key_fingerprint(const SecretKey& key);

// Of all fields, salt included.
Result<NamespaceDigest> namespace_digest(const NamespaceFields& fields);

struct NamespaceSlot {
  std::uint64_t revision = 1;
  std::uint64_t epoch = 0;
  NamespaceDigest digest{};
  std::string text;  // JSON for people, at most namespace_text_limit bytes
  SecretKey key;     // of its records, in an encrypted store
};
constexpr std::size_t namespace_text_limit = 3072;
constexpr std::uint64_t namespace_slot_offset(std::uint32_t slot, std::uint32_t copy) {
  return namespace_table_offset + (slot * 2 + copy) * store_page;
}
// With a seal all but revision and epoch is sealed under it; false if there was no memory for that.
[[nodiscard]] bool encode_namespace_slot(const NamespaceSlot& slot, const Id& store, std::span<std::byte> page,
                                         const Seal* seal = nullptr);
Result<NamespaceSlot> parse_namespace_slot(std::span<const std::byte> page, const Id& store,
                                           const Sealer* sealer = nullptr);

// Of namespace, epoch and key (1 to 255 bytes).
KeyHash hash_key(const HashSecret& secret, const NamespaceDigest& ns, std::uint64_t epoch,
                 std::span<const std::byte> key);

// The CRC that pages of a store begin with at byte 4: of what follows it, continued from that of the store's id, so
// that another store's pages are not good ones of this one.
std::uint32_t store_crc(std::span<const std::byte> pages, const Id& store);

}  // namespace artesian
