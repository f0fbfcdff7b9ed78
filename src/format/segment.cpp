#include "format/segment.h"

#include <cassert>
#include <cstring>

#include "base/crc32c.h"
#include "base/little_endian.h"
#include "format/sealer.h"

namespace artesian {
namespace {

constexpr std::uint32_t header_magic = 0x53545241;  // "ARTS"
constexpr std::uint32_t frame_version = 1;
constexpr std::uint32_t footer_magic = 0x46545241;  // "ARTF"

// Begins alike in header and footer.
enum FrameAt : std::size_t {
  at_magic = 0,
  at_crc = 4,
  at_version = 8,
  at_segment = 12,
  at_sequence = 16,
  at_generation = 24,
  header_lifetime = 32,
  header_placement = 34,
  footer_entries = 32,
  footer_index_page = 36,
  footer_index_crc = 40,
  footer_end_page = 44,
  footer_nonce = 48,
  footer_tag = 72,
};

enum EntryAt : std::size_t {
  entry_key = 0,
  entry_parent = 16,
  entry_generation = 32,
  entry_page = 40,
  entry_pages = 44,
  entry_header_pages = 46,
  entry_kind = 47,
  entry_position = 48,
  entry_lifetime = 52,
  entry_codec = 53,
  entry_session = 56,
};

// What header and footer have in common; their CRC comes last.
void begin_frame(std::span<std::byte> page, std::uint32_t magic, std::uint32_t segment, std::uint64_t sequence,
                 std::uint64_t generation) {
  assert(page.size() == store_page);
  std::memset(page.data(), 0, page.size());
  store_le(page, at_magic, magic);
  store_le(page, at_version, frame_version);
  store_le(page, at_segment, segment);
  store_le(page, at_sequence, sequence);
  store_le(page, at_generation, generation);
}

Status check_frame(std::span<const std::byte> page, std::uint32_t magic, const Id& store, const char* what) {
  assert(page.size() == store_page);
  if (load_le<std::uint32_t>(page, at_magic) != magic) return fail(Code::not_found, "there is no segment's {}", what);
  if (load_le<std::uint32_t>(page, at_crc) != store_crc(page, store)) {
    return fail(Code::corrupt, "the segment's {} is damaged", what);
  }
  if (load_le<std::uint32_t>(page, at_version) != frame_version) {
    return fail(Code::corrupt, "the segment's {} is of no known version", what);
  }
  return {};
}

KeyHash load_hash(std::span<const std::byte> bytes, std::size_t at) {
  return {load_le<std::uint64_t>(bytes, at), load_le<std::uint64_t>(bytes, at + 8)};
}

void store_hash(std::span<std::byte> bytes, std::size_t at, const KeyHash& key) {
  store_le(bytes, at, key.low);
  store_le(bytes, at + 8, key.high);
}

}  // namespace

void encode_segment_header(const SegmentHeader& header, const Id& store, std::span<std::byte> page) {
  begin_frame(page, header_magic, header.segment, header.sequence, header.generation);
  store_le(page, header_lifetime, header.lifetime);
  store_le(page, header_placement, header.placement);
  store_le(page, at_crc, store_crc(page, store));
}

Result<SegmentHeader> parse_segment_header(std::span<const std::byte> page, const Id& store) {
  if (auto checked = check_frame(page, header_magic, store, "header"); !checked) return fail(checked.error());
  return SegmentHeader{.segment = load_le<std::uint32_t>(page, at_segment),
                       .sequence = load_le<std::uint64_t>(page, at_sequence),
                       .generation = load_le<std::uint64_t>(page, at_generation),
                       .lifetime = load_le<std::uint8_t>(page, header_lifetime),
                       .placement = load_le<std::uint16_t>(page, header_placement)};
}

std::uint32_t SegmentFooter::index_pages() const {
  return index_pages_of(entries);
}

void encode_segment_footer(const SegmentFooter& footer, const Id& store, std::span<std::byte> page) {
  begin_frame(page, footer_magic, footer.segment, footer.sequence, footer.generation);
  store_le(page, footer_entries, footer.entries);
  store_le(page, footer_index_page, footer.index_page);
  store_le(page, footer_index_crc, footer.index_crc);
  store_le(page, footer_end_page, footer.end_page);
  store_nonce(page, footer_nonce, footer.nonce);
  store_le(page, footer_tag, footer.tag);
  store_le(page, at_crc, store_crc(page, store));
}

Result<SegmentFooter> parse_segment_footer(std::span<const std::byte> page, const Id& store,
                                           std::uint32_t segment_pages) {
  if (auto checked = check_frame(page, footer_magic, store, "footer"); !checked) return fail(checked.error());
  const SegmentFooter footer{.segment = load_le<std::uint32_t>(page, at_segment),
                             .sequence = load_le<std::uint64_t>(page, at_sequence),
                             .generation = load_le<std::uint64_t>(page, at_generation),
                             .entries = load_le<std::uint32_t>(page, footer_entries),
                             .index_page = load_le<std::uint32_t>(page, footer_index_page),
                             .index_crc = load_le<std::uint32_t>(page, footer_index_crc),
                             .end_page = load_le<std::uint32_t>(page, footer_end_page),
                             .nonce = load_nonce(page, footer_nonce),
                             .tag = load_le<GcmTag>(page, footer_tag)};
  const std::uint64_t pages = pages_of(std::uint64_t{footer.entries} * index_entry_bytes);
  if (footer.end_page == 0 || footer.end_page > footer.index_page || footer.index_page + pages + 1 != segment_pages) {
    return fail(Code::corrupt, "the segment's footer contradicts itself");
  }
  return footer;
}

void encode_index(std::span<const IndexEntry> entries, std::span<std::byte> pages) {
  assert(pages.size() == index_pages_of(entries.size()) * store_page);
  std::ranges::fill(pages, std::byte{0});
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const IndexEntry& entry = entries[i];
    const auto to = pages.subspan(i * index_entry_bytes, index_entry_bytes);
    store_hash(to, entry_key, entry.key);
    store_hash(to, entry_parent, entry.parent);
    store_le(to, entry_generation, entry.generation);
    store_le(to, entry_page, entry.page);
    store_le(to, entry_pages, entry.pages);
    store_le(to, entry_header_pages, entry.header_pages);
    store_le(to, entry_kind, entry.kind);
    store_le(to, entry_position, entry.position);
    store_le(to, entry_lifetime, entry.lifetime);
    store_le(to, entry_codec, entry.codec);
    store_le(to, entry_session, entry.session);
  }
}

namespace {

// Of which segment an index is: cannot be put under another's footer.
std::array<std::byte, 28> index_identity(const SegmentFooter& footer) {
  std::array<std::byte, 28> bytes;
  store_le(bytes, 0, footer.segment);
  store_le(bytes, 4, footer.entries);
  store_le(bytes, 8, footer.sequence);
  store_le(bytes, 16, footer.generation);
  store_le(bytes, 24, footer.end_page);
  return bytes;
}

}  // namespace

bool seal_index(const Seal& seal, SegmentFooter& footer, std::span<std::byte> pages) {
  footer.nonce = seal.nonce;
  return seal_whole(seal, index_identity(footer), pages, footer.tag);
}

Result<std::vector<IndexEntry>> parse_index(std::span<const std::byte> pages, const SegmentFooter& footer,
                                            const Sealer* sealer) {
  if (pages.size() != footer.index_pages() * store_page || crc32c(pages) != footer.index_crc) {
    return fail(Code::corrupt, "the segment's index is damaged");
  }
  std::vector<std::byte> opened(sealer != nullptr ? pages.size() : 0);
  if (sealer != nullptr) {
    if (auto done = open_whole(*sealer, scope_index, footer.nonce, index_identity(footer), pages, opened, footer.tag,
                               "the segment's index");
        !done) {
      return fail(std::move(done.error()));
    }
    pages = opened;
  }
  std::vector<IndexEntry> entries(footer.entries);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto from = pages.subspan(i * index_entry_bytes, index_entry_bytes);
    IndexEntry& entry = entries[i];
    entry.key = load_hash(from, entry_key);
    entry.parent = load_hash(from, entry_parent);
    entry.generation = load_le<std::uint64_t>(from, entry_generation);
    entry.page = load_le<std::uint32_t>(from, entry_page);
    entry.pages = load_le<std::uint16_t>(from, entry_pages);
    entry.header_pages = load_le<std::uint8_t>(from, entry_header_pages);
    entry.kind = load_le<RecordKind>(from, entry_kind);
    entry.position = load_le<std::uint32_t>(from, entry_position);
    entry.lifetime = load_le<std::uint8_t>(from, entry_lifetime);
    entry.codec = load_le<std::uint8_t>(from, entry_codec);
    entry.session = load_le<std::uint64_t>(from, entry_session);
    const bool known = entry.kind == RecordKind::block || entry.kind == RecordKind::erasures;
    if (!known || entry.page == 0 || entry.header_pages == 0 || entry.pages < entry.header_pages ||
        std::uint64_t{entry.page} + entry.pages > footer.end_page) {
      return fail(Code::corrupt, "entry {} of the segment's index contradicts itself", i);
    }
  }
  return entries;
}

}  // namespace artesian
