#include "format/store_format.h"

#include <cassert>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/crc32c.h"
#include "base/little_endian.h"

namespace artesian {
namespace {

constexpr char superblock_magic[8] = {'A', 'R', 'T', 'E', 'S', 'I', 'A', 'N'};
constexpr std::uint32_t slot_magic = 0x4E545241;  // "ARTN"
constexpr std::uint32_t flag_weights = 1;

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
  sb_written_bytes = 328,  // behind the fingerprint of an encryption key
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
};

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
  store_le(page, sb_flags, flag_weights);
  store_le(page, sb_block_bytes_max, sb.block_bytes_max);
  store_le(page, sb_generation, sb.generation);
  store_le(page, sb_secret, sb.secret);
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
  if (const auto version = load_le<std::uint32_t>(page, sb_version); version != store_format_version) {
    return fail(Code::invalid, "the store has format {}, this program knows {}", version, store_format_version);
  }
  if (const auto flags = load_le<std::uint32_t>(page, sb_flags); flags != flag_weights) {
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
  sb.written_bytes = load_le<std::uint64_t>(page, sb_written_bytes);
  sb.made_ms = load_le<std::uint64_t>(page, sb_made_ms);
  sb.write_bytes_per_day = load_le<std::uint64_t>(page, sb_write_bytes_per_day);
  if (auto checked = check_superblock(sb); !checked) return fail(Code::corrupt, "{}", checked.error().message);
  return sb;
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

void encode_namespace_slot(const NamespaceSlot& slot, const Id& store, std::span<std::byte> page) {
  assert(page.size() == store_page && slot.text.size() <= namespace_text_limit);
  std::memset(page.data(), 0, page.size());
  store_le(page, ns_magic, slot_magic);
  store_le(page, ns_version, store_format_version);
  store_le(page, ns_text_bytes, static_cast<std::uint32_t>(slot.text.size()));
  store_le(page, ns_revision, slot.revision);
  store_le(page, ns_epoch, slot.epoch);
  store_le(page, ns_digest, slot.digest);
  std::memcpy(page.data() + ns_text, slot.text.data(), slot.text.size());
  store_le(page, ns_crc, store_crc(page, store));
}

Result<NamespaceSlot> parse_namespace_slot(std::span<const std::byte> page, const Id& store) {
  assert(page.size() == store_page);
  if (load_le<std::uint32_t>(page, ns_magic) != slot_magic) return fail(Code::not_found, "the slot is empty");
  if (load_le<std::uint32_t>(page, ns_crc) != store_crc(page, store)) {
    return fail(Code::corrupt, "the namespace slot is damaged");
  }
  const auto bytes = load_le<std::uint32_t>(page, ns_text_bytes);
  if (load_le<std::uint32_t>(page, ns_version) != store_format_version || bytes > namespace_text_limit) {
    return fail(Code::corrupt, "the namespace slot is of no known version");
  }
  NamespaceSlot slot;
  slot.revision = load_le<std::uint64_t>(page, ns_revision);
  slot.epoch = load_le<std::uint64_t>(page, ns_epoch);
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
