#include "format/record.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/crc32c.h"
#include "base/little_endian.h"

namespace artesian {
namespace {

constexpr std::uint32_t record_magic = 0x52545241;  // "ARTR"
constexpr std::uint16_t record_version = 1;

enum RecordAt : std::size_t {
  at_magic = 0,
  at_crc = 4,
  at_version = 8,
  at_kind = 10,
  at_codec = 11,
  at_lifetime = 12,
  at_io_class = 13,
  at_key_bytes = 14,
  at_parent_bytes = 15,
  at_attribute_bytes = 16,
  at_extents = 18,
  at_header_pages = 20,
  at_flags = 22,
  at_stored = 24,
  at_raw = 28,
  at_segment = 32,
  at_page = 36,
  at_sequence = 40,
  at_generation = 48,
  at_ns = 56,
  at_epoch = 88,
  at_session = 96,
  at_position = 104,
  at_tokens = 108,
  at_deadline = 112,
  at_next_use = 120,
  at_key = 160,
};

constexpr std::uint32_t header_pages_limit = 9;

std::size_t extents_at(std::size_t key, std::size_t parent, std::size_t attributes) {
  return align_up(at_key + key + parent + attributes, 8);
}

// The extents must make up the payload.
Status check_extents(const RecordHeader& header) {
  std::uint64_t stored = 0, raw = 0;
  for (std::uint32_t i = 0; i < header.extent_count(); ++i) {
    const Extent extent = header.extent(i);
    if (header.codec == 0 && extent.stored_bytes != extent.raw_bytes) {
      return fail(Code::corrupt, "extent {} of the record has two sizes and no codec", i);
    }
    stored += extent.stored_bytes;
    raw += extent.raw_bytes;
  }
  if (stored != header.stored_bytes || raw != header.raw_bytes) {
    return fail(Code::corrupt, "the record's extents make up {} bytes of {}", stored, header.stored_bytes);
  }
  return {};
}

}  // namespace

Extent RecordHeader::extent(std::uint32_t index) const {
  const auto entry = extent_table.subspan(index * extent_bytes, extent_bytes);
  return {load_le<std::uint32_t>(entry, 0), load_le<std::uint32_t>(entry, 4), load_le<std::uint32_t>(entry, 8)};
}

std::uint32_t record_header_pages(std::size_t key_bytes, std::size_t parent_bytes, std::size_t attribute_bytes,
                                  std::size_t extents) {
  const std::size_t bytes = extents_at(key_bytes, parent_bytes, attribute_bytes) + extents * extent_bytes;
  return static_cast<std::uint32_t>(pages_of(bytes));
}

void encode_record(const RecordHeader& header, std::span<const Extent> extents, const Id& store,
                   std::span<std::byte> pages) {
  const std::size_t keys = header.key.size(), parents = header.parent.size(), attributes = header.attributes.size();
  assert(pages.size() == record_header_pages(keys, parents, attributes, extents.size()) * store_page);
  assert(keys <= key_bytes_limit && parents <= key_bytes_limit && attributes <= attribute_bytes_limit);
  assert(!extents.empty() && extents.size() <= extents_limit);
  std::memset(pages.data(), 0, pages.size());
  store_le(pages, at_magic, record_magic);
  store_le(pages, at_version, record_version);
  store_le(pages, at_kind, header.kind);
  store_le(pages, at_codec, header.codec);
  store_le(pages, at_lifetime, header.lifetime);
  store_le(pages, at_io_class, header.io_class);
  store_le(pages, at_key_bytes, static_cast<std::uint8_t>(keys));
  store_le(pages, at_parent_bytes, static_cast<std::uint8_t>(parents));
  store_le(pages, at_attribute_bytes, static_cast<std::uint16_t>(attributes));
  store_le(pages, at_extents, static_cast<std::uint16_t>(extents.size()));
  store_le(pages, at_header_pages, static_cast<std::uint16_t>(pages.size() / store_page));
  store_le(pages, at_stored, header.stored_bytes);
  store_le(pages, at_raw, header.raw_bytes);
  store_le(pages, at_segment, header.segment);
  store_le(pages, at_page, header.page);
  store_le(pages, at_sequence, header.sequence);
  store_le(pages, at_generation, header.generation);
  store_le(pages, at_ns, header.ns);
  store_le(pages, at_epoch, header.epoch);
  store_le(pages, at_session, header.session);
  store_le(pages, at_position, header.position);
  store_le(pages, at_tokens, header.tokens);
  store_le(pages, at_deadline, header.deadline_ms);
  store_le(pages, at_next_use, header.next_use_ms);
  std::size_t at = at_key;
  for (const auto part : {header.key, header.parent, header.attributes}) {
    if (!part.empty()) std::memcpy(pages.data() + at, part.data(), part.size());
    at += part.size();
  }
  at = extents_at(keys, parents, attributes);
  for (const Extent& extent : extents) {
    store_le(pages, at, extent.stored_bytes);
    store_le(pages, at + 4, extent.raw_bytes);
    store_le(pages, at + 8, extent.crc);
    at += extent_bytes;
  }
  store_le(pages, at_crc, store_crc(pages, store));
}

void rewrite_record(const RecordHeader& header, const Id& store, std::span<std::byte> pages) {
  const auto own = pages.first(header.header_pages * store_page);
  store_le(own, at_lifetime, header.lifetime);
  store_le(own, at_segment, header.segment);
  store_le(own, at_page, header.page);
  store_le(own, at_sequence, header.sequence);
  store_le(own, at_crc, store_crc(own, store));
}

bool begins_like_record(std::span<const std::byte> page) {
  return page.size() >= store_page && load_le<std::uint32_t>(page, at_magic) == record_magic;
}

std::uint32_t stated_header_pages(std::span<const std::byte> page) {
  if (!begins_like_record(page)) return 0;
  const auto pages = load_le<std::uint16_t>(page, at_header_pages);
  return pages <= header_pages_limit ? pages : 0;
}

Result<RecordHeader> parse_record(std::span<const std::byte> bytes, const Id& store) {
  const std::uint32_t header_pages = stated_header_pages(bytes);
  if (header_pages == 0 || header_pages * store_page > bytes.size()) {
    return fail(Code::corrupt, "there is no record's header");
  }
  const auto pages = bytes.first(header_pages * store_page);
  if (load_le<std::uint32_t>(pages, at_crc) != store_crc(pages, store)) {
    return fail(Code::corrupt, "the record's header is damaged");
  }
  // From here on the bytes are what a store wrote. Whether it was this program's is another matter.
  if (const auto version = load_le<std::uint16_t>(pages, at_version); version != record_version) {
    return fail(Code::corrupt, "the record has version {}, this program knows {}", version, record_version);
  }
  if (const auto flags = load_le<std::uint16_t>(pages, at_flags); flags != 0) {
    return fail(Code::corrupt, "the record has flags {:#x} that this program does not know", flags);
  }
  RecordHeader header;
  header.kind = load_le<RecordKind>(pages, at_kind);
  header.codec = load_le<std::uint8_t>(pages, at_codec);
  header.lifetime = load_le<std::uint8_t>(pages, at_lifetime);
  header.io_class = load_le<std::uint8_t>(pages, at_io_class);
  header.stored_bytes = load_le<std::uint32_t>(pages, at_stored);
  header.raw_bytes = load_le<std::uint32_t>(pages, at_raw);
  header.segment = load_le<std::uint32_t>(pages, at_segment);
  header.page = load_le<std::uint32_t>(pages, at_page);
  header.sequence = load_le<std::uint64_t>(pages, at_sequence);
  header.generation = load_le<std::uint64_t>(pages, at_generation);
  header.ns = load_le<NamespaceDigest>(pages, at_ns);
  header.epoch = load_le<std::uint64_t>(pages, at_epoch);
  header.session = load_le<std::uint64_t>(pages, at_session);
  header.position = load_le<std::uint32_t>(pages, at_position);
  header.tokens = load_le<std::uint32_t>(pages, at_tokens);
  header.deadline_ms = load_le<std::uint64_t>(pages, at_deadline);
  header.next_use_ms = load_le<std::uint64_t>(pages, at_next_use);
  header.header_pages = header_pages;
  const std::size_t keys = load_le<std::uint8_t>(pages, at_key_bytes);
  const std::size_t parents = load_le<std::uint8_t>(pages, at_parent_bytes);
  const std::size_t attributes = load_le<std::uint16_t>(pages, at_attribute_bytes);
  const std::size_t extents = load_le<std::uint16_t>(pages, at_extents);
  const bool block = header.kind == RecordKind::block;
  if (!(block || header.kind == RecordKind::erasures) || (block && keys == 0) || attributes > attribute_bytes_limit ||
      extents == 0 || extents > extents_limit ||
      record_header_pages(keys, parents, attributes, extents) != header_pages ||
      header.stored_bytes > block_bytes_limit || header.raw_bytes > block_bytes_limit) {
    return fail(Code::corrupt, "the record's header contradicts itself");
  }
  header.key = pages.subspan(at_key, keys);
  header.parent = pages.subspan(at_key + keys, parents);
  header.attributes = pages.subspan(at_key + keys + parents, attributes);
  header.extent_table = pages.subspan(extents_at(keys, parents, attributes), extents * extent_bytes);
  if (auto checked = check_extents(header); !checked) return fail(std::move(checked.error()));
  return header;
}

bool verify_payload(const RecordHeader& header, std::span<const std::span<const std::byte>> pieces) {
  std::size_t piece = 0, at = 0;  // where the next byte is
  for (std::uint32_t i = 0; i < header.extent_count(); ++i) {
    const Extent extent = header.extent(i);
    std::uint32_t crc = 0;
    for (std::size_t left = extent.stored_bytes; left > 0;) {
      if (piece == pieces.size()) return false;
      const auto part = pieces[piece].subspan(at, std::min(left, pieces[piece].size() - at));
      crc = crc32c(part, crc);
      left -= part.size();
      at += part.size();
      if (at < pieces[piece].size()) continue;
      ++piece;
      at = 0;
    }
    if (crc != extent.crc) return false;
  }
  return true;
}

bool whole_payload_is_good(const RecordHeader& header, std::span<const std::byte> pages) {
  const auto payload = pages.subspan(header.header_pages * store_page, header.stored_bytes);
  return verify_payload(header, std::span(&payload, 1));
}

void encode_erasures(std::span<const Erasure> erasures, std::span<std::byte> payload) {
  assert(payload.size() == erasures.size() * erasure_bytes);
  for (std::size_t i = 0; i < erasures.size(); ++i) {
    const auto entry = payload.subspan(i * erasure_bytes, erasure_bytes);
    store_le(entry, 0, erasures[i].key.low);
    store_le(entry, 8, erasures[i].key.high);
    store_le(entry, 16, erasures[i].generation);
    store_le(entry, 24, erasures[i].sequence);
  }
}

std::vector<Erasure> parse_erasures(std::span<const std::byte> payload) {
  std::vector<Erasure> erasures(payload.size() / erasure_bytes);
  for (std::size_t i = 0; i < erasures.size(); ++i) {
    const auto entry = payload.subspan(i * erasure_bytes, erasure_bytes);
    erasures[i].key = {load_le<std::uint64_t>(entry, 0), load_le<std::uint64_t>(entry, 8)};
    erasures[i].generation = load_le<std::uint64_t>(entry, 16);
    erasures[i].sequence = load_le<std::uint64_t>(entry, 24);
  }
  return erasures;
}

}  // namespace artesian
