#include "format/store_format.h"

#include <cassert>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/crc32c.h"
#include "base/hex.h"
#include "base/little_endian.h"
#include "format/sealer.h"

namespace artesian {
namespace {

constexpr char superblock_magic[8] = {'A', 'R', 'T', 'E', 'S', 'I', 'A', 'N'};
constexpr std::uint32_t slot_magic = 0x4E545241;  // "ARTN"
constexpr std::uint32_t flag_weights = 1, flag_encrypted = 2;
constexpr std::uint32_t slot_version = 1, sealed_slot_version = 2;

// Where the fields of a superblock are.
enum SuperblockAt : std::size_t {
  sb_crc = 8,
  sb_version = 12,
  sb_revision = 16,
  sb_store = 24,
  sb_path = 40,
  sb_path_index = 56,
  sb_path_count = 60,
  sb_data_offset = 64,
  sb_segment_bytes = 72,
  sb_segments = 80,
  sb_flags = 84,
  sb_block_bytes_max = 88,
  sb_generation = 96,
  sb_secret = 104,
  sb_key_fingerprint = 296,
  sb_written_bytes = 328,
  sb_made_ms = 336,
  sb_write_bytes_per_day = 344,
};

enum SlotAt : std::size_t {
  ns_magic = 0,
  ns_crc = 4,
  ns_version = 8,
  ns_text_bytes = 12,
  ns_revision = 16,
  ns_epoch = 24,
  ns_digest = 32,
  ns_text = 64,
  // Sealed: in place of digest and text.
  ns_nonce = 32,
  ns_tag = 64,
  ns_sealed = 80,
};

// What is sealed of a slot, from ns_sealed to the end of the page.
enum SealedSlotAt : std::size_t { sealed_digest = 0, sealed_key = 32, sealed_text_bytes = 64, sealed_text = 68 };

void append(std::string& to, const std::string& field) {
  const auto bytes = static_cast<std::uint32_t>(field.size());
  to.append(reinterpret_cast<const char*>(&bytes), sizeof bytes);
  to.append(field);
}

}  // namespace

Status check_superblock(const Superblock& sb) {
  if (sb.segment_bytes < segment_bytes_min || sb.segment_bytes > segment_bytes_limit ||
      sb.segment_bytes % segment_bytes_min != 0) {
    return fail(Code::invalid, "segments of {} bytes are not possible, multiples of 64 KiB up to 16 GiB are",
                sb.segment_bytes);
  }
  if (sb.segments < segments_min || sb.segments > segments_limit) {
    return fail(Code::invalid, "{} segments of {} are not possible, {} to {} are", sb.segments,
                format_size(sb.segment_bytes), segments_min, segments_limit);
  }
  if (sb.block_bytes_max < store_page || sb.block_bytes_max > block_bytes_limit) {
    return fail(Code::invalid, "blocks of up to {} bytes are not possible, 4 KiB to 64 MiB are", sb.block_bytes_max);
  }
  if (sb.data_offset != store_data_offset) {
    return fail(Code::invalid, "segments cannot begin at offset {}", sb.data_offset);
  }
  if (sb.path_count == 0 || sb.path_index >= sb.path_count) {
    return fail(Code::invalid, "path number {} of {} is not possible", sb.path_index, sb.path_count);
  }
  return {};
}

void encode_superblock(const Superblock& sb, std::span<std::byte> page) {
  assert(page.size() == store_page);
  std::memset(page.data(), 0, page.size());
  std::memcpy(page.data(), superblock_magic, sizeof superblock_magic);
  store_le(page, sb_version, store_format_version);
  store_le(page, sb_revision, sb.revision);
  store_le(page, sb_store, sb.store);
  store_le(page, sb_path, sb.path);
  store_le(page, sb_path_index, sb.path_index);
  store_le(page, sb_path_count, sb.path_count);
  store_le(page, sb_data_offset, sb.data_offset);
  store_le(page, sb_segment_bytes, sb.segment_bytes);
  store_le(page, sb_segments, sb.segments);
  store_le(page, sb_flags, flag_weights | (sb.encrypted ? flag_encrypted : 0));
  store_le(page, sb_block_bytes_max, sb.block_bytes_max);
  store_le(page, sb_generation, sb.generation);
  if (!sb.encrypted) store_le(page, sb_secret, sb.secret);
  store_le(page, sb_key_fingerprint, sb.key_fingerprint);
  store_le(page, sb_written_bytes, sb.written_bytes);
  store_le(page, sb_made_ms, sb.made_ms);
  store_le(page, sb_write_bytes_per_day, sb.write_bytes_per_day);
  store_le(page, sb_crc, crc32c(page.subspan(sb_version)));
}

Result<Superblock> parse_superblock(std::span<const std::byte> page) {
  assert(page.size() == store_page);
  if (std::memcmp(page.data(), superblock_magic, sizeof superblock_magic) != 0) {
    return fail(Code::not_found, "there is no store of Artesian's");
  }
  if (load_le<std::uint32_t>(page, sb_crc) != crc32c(page.subspan(sb_version))) {
    return fail(Code::corrupt, "the superblock is damaged");
  }
  const auto version = load_le<std::uint32_t>(page, sb_version);
  if (version == 0 || version > store_format_version) {
    return fail(Code::invalid, "the store has format {}, this program knows 1 to {}", version, store_format_version);
  }
  const auto flags = load_le<std::uint32_t>(page, sb_flags);
  if ((flags & ~flag_encrypted) != flag_weights || (version == 1 && flags != flag_weights)) {
    return fail(Code::invalid, "the store uses features (flags {:#x}) that this program does not know", flags);
  }
  Superblock sb;
  sb.revision = load_le<std::uint64_t>(page, sb_revision);
  sb.store = load_le<Id>(page, sb_store);
  sb.path = load_le<Id>(page, sb_path);
  sb.path_index = load_le<std::uint32_t>(page, sb_path_index);
  sb.path_count = load_le<std::uint32_t>(page, sb_path_count);
  sb.data_offset = load_le<std::uint64_t>(page, sb_data_offset);
  sb.segment_bytes = load_le<std::uint64_t>(page, sb_segment_bytes);
  sb.segments = load_le<std::uint32_t>(page, sb_segments);
  sb.block_bytes_max = load_le<std::uint64_t>(page, sb_block_bytes_max);
  sb.generation = load_le<std::uint64_t>(page, sb_generation);
  sb.secret = load_le<HashSecret>(page, sb_secret);
  sb.encrypted = (flags & flag_encrypted) != 0;
  sb.key_fingerprint = load_le<Sha256>(page, sb_key_fingerprint);
  sb.written_bytes = load_le<std::uint64_t>(page, sb_written_bytes);
  sb.made_ms = load_le<std::uint64_t>(page, sb_made_ms);
  sb.write_bytes_per_day = load_le<std::uint64_t>(page, sb_write_bytes_per_day);
  if (auto checked = check_superblock(sb); !checked) return fail(Code::corrupt, "{}", checked.error().message);
  return sb;
}

Result<Sha256> key_fingerprint(const SecretKey& key) {
  return sha256(key.bytes);
}

Status check_key(const Superblock& superblock, const SecretKey* key) {
  const auto beginning = [](const Sha256& fingerprint) { return to_hex(std::span(fingerprint).first(4)); };
  if (!superblock.encrypted) {
    if (key != nullptr) return fail(Code::invalid, "the store is not encrypted, and a key was given");
    return {};
  }
  if (key == nullptr) {
    return fail(Code::invalid, "the store is encrypted, its key (fingerprint {}...) is needed to open it",
                beginning(superblock.key_fingerprint));
  }
  const auto own = key_fingerprint(*key);
  if (!own) return fail(own.error());
  if (*own != superblock.key_fingerprint) {
    return fail(Code::invalid, "the key given has the fingerprint {}..., the store's has {}...", beginning(*own),
                beginning(superblock.key_fingerprint));
  }
  return {};
}

Result<NamespaceDigest> namespace_digest(const NamespaceFields& fields) {
  std::string text = "artesian namespace 1";
  append(text, fields.model);
  append(text, fields.weights);
  append(text, fields.dtype);
  append(text, fields.layout);
  append(text, std::to_string(fields.block_tokens));
  append(text, std::to_string(fields.rank));
  append(text, std::to_string(fields.world_size));
  append(text, fields.adapter);
  append(text, fields.salt);
  return sha256(std::as_bytes(std::span(text)));
}

bool encode_namespace_slot(const NamespaceSlot& slot, const Id& store, std::span<std::byte> page, const Seal* seal) {
  assert(page.size() == store_page && slot.text.size() <= namespace_text_limit);
  std::memset(page.data(), 0, page.size());
  store_le(page, ns_magic, slot_magic);
  store_le(page, ns_version, seal != nullptr ? sealed_slot_version : slot_version);
  store_le(page, ns_revision, slot.revision);
  store_le(page, ns_epoch, slot.epoch);
  if (seal == nullptr) {
    store_le(page, ns_text_bytes, static_cast<std::uint32_t>(slot.text.size()));
    store_le(page, ns_digest, slot.digest);
    std::memcpy(page.data() + ns_text, slot.text.data(), slot.text.size());
  } else {
    const auto inner = page.subspan(ns_sealed);
    store_nonce(page, ns_nonce, seal->nonce);
    store_le(inner, sealed_digest, slot.digest);
    store_le(inner, sealed_key, slot.key.bytes);
    store_le(inner, sealed_text_bytes, static_cast<std::uint32_t>(slot.text.size()));
    std::memcpy(inner.data() + sealed_text, slot.text.data(), slot.text.size());
    GcmTag tag{};
    const bool sealed = seal_whole(*seal, page.subspan(ns_version, ns_tag - ns_version), inner, tag);
    store_le(page, ns_tag, tag);
    if (!sealed) std::memset(page.data(), 0, page.size());
    if (!sealed) return false;
  }
  store_le(page, ns_crc, store_crc(page, store));
  return true;
}

namespace {

Status open_slot(std::span<const std::byte> page, const Sealer& sealer, NamespaceSlot& slot) {
  std::array<std::byte, store_page - ns_sealed> inner;
  auto opened =
      open_whole(sealer, scope_table, load_nonce(page, ns_nonce), page.subspan(ns_version, ns_tag - ns_version),
                 page.subspan(ns_sealed), inner, load_le<GcmTag>(page, ns_tag), "the namespace slot");
  if (!opened) return opened;
  const auto bytes = load_le<std::uint32_t>(inner, sealed_text_bytes);
  if (bytes > namespace_text_limit) {
    wipe(inner);
    return fail(Code::corrupt, "the namespace slot has a text of {} bytes", bytes);
  }
  slot.digest = load_le<NamespaceDigest>(inner, sealed_digest);
  slot.key.bytes = load_le<decltype(slot.key.bytes)>(inner, sealed_key);
  slot.text.assign(reinterpret_cast<const char*>(inner.data()) + sealed_text, bytes);
  wipe(inner);
  return {};
}

}  // namespace

Result<NamespaceSlot> parse_namespace_slot(std::span<const std::byte> page, const Id& store, const Sealer* sealer) {
  assert(page.size() == store_page);
  if (load_le<std::uint32_t>(page, ns_magic) != slot_magic) return fail(Code::not_found, "the slot is empty");
  if (load_le<std::uint32_t>(page, ns_crc) != store_crc(page, store)) {
    return fail(Code::corrupt, "the namespace slot is damaged");
  }
  // Not a plain one either in a store that has none: somebody else has put it there.
  const auto bytes = load_le<std::uint32_t>(page, ns_text_bytes);
  if (load_le<std::uint32_t>(page, ns_version) != (sealer != nullptr ? sealed_slot_version : slot_version) ||
      bytes > namespace_text_limit) {
    return fail(Code::corrupt, "the namespace slot is of no known version");
  }
  NamespaceSlot slot;
  slot.revision = load_le<std::uint64_t>(page, ns_revision);
  slot.epoch = load_le<std::uint64_t>(page, ns_epoch);
  if (sealer != nullptr) {
    if (auto opened = open_slot(page, *sealer, slot); !opened) return fail(std::move(opened.error()));
    return slot;
  }
  slot.digest = load_le<NamespaceDigest>(page, ns_digest);
  slot.text.assign(reinterpret_cast<const char*>(page.data()) + ns_text, bytes);
  return slot;
}

KeyHash hash_key(const HashSecret& secret, const NamespaceDigest& ns, std::uint64_t epoch,
                 std::span<const std::byte> key) {
  assert(!key.empty() && key.size() <= key_bytes_limit);
  std::array<std::byte, sizeof ns + sizeof epoch + key_bytes_limit> bytes;
  store_le(bytes, 0, ns);
  store_le(bytes, sizeof ns, epoch);
  std::memcpy(bytes.data() + sizeof ns + sizeof epoch, key.data(), key.size());
  const auto hash =
      XXH3_128bits_withSecret(bytes.data(), sizeof ns + sizeof epoch + key.size(), secret.data(), secret.size());
  return {hash.low64, hash.high64};
}

std::uint32_t store_crc(std::span<const std::byte> pages, const Id& store) {
  return crc32c(pages.subspan(8), crc32c(store));
}

}  // namespace artesian
