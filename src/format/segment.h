// The frame around the records of a segment: its header page, and, when sealed, the index of its records and the
// footer that says where that is. As docs/format.md lays it out; what is read is taken for hostile.
//
// Threads: pure functions and values.
#pragma once

#include <span>

#include "format/record.h"

namespace artesian {

struct SegmentHeader {
  std::uint32_t segment = 0;
  std::uint64_t sequence = 0;
  std::uint64_t generation = 0;  // reached when it was opened
  std::uint8_t lifetime = 0;
  std::uint16_t placement = 0;
};
void encode_segment_header(const SegmentHeader& header, const Id& store, std::span<std::byte> page);
Result<SegmentHeader> parse_segment_header(std::span<const std::byte> page, const Id& store);

struct SegmentFooter {
  std::uint32_t segment = 0;
  std::uint64_t sequence = 0;
  std::uint64_t generation = 0;  // the highest in the segment
  std::uint32_t entries = 0;
  std::uint32_t index_page = 0;
  std::uint32_t index_crc = 0;
  std::uint32_t end_page = 0;  // behind the last record
  SealNonce nonce;             // of the index, where it is sealed
  GcmTag tag{};

  std::uint32_t index_pages() const;
};
void encode_segment_footer(const SegmentFooter& footer, const Id& store, std::span<std::byte> page);
// corrupt if index and footer do not fit into a segment of that many pages.
Result<SegmentFooter> parse_segment_footer(std::span<const std::byte> page, const Id& store,
                                           std::uint32_t segment_pages);

struct IndexEntry {
  KeyHash key, parent;
  std::uint64_t generation = 0;
  std::uint32_t page = 0;
  std::uint16_t pages = 0;
  std::uint8_t header_pages = 0;
  RecordKind kind = RecordKind::block;
  std::uint32_t position = 0;
  std::uint8_t lifetime = 0;
  std::uint8_t codec = 0;  // as in the record
  std::uint64_t session = 0;
};
constexpr std::size_t index_entry_bytes = 64;
constexpr std::uint32_t index_pages_of(std::uint64_t entries) {
  return static_cast<std::uint32_t>(pages_of(entries * index_entry_bytes));
}
void encode_index(std::span<const IndexEntry> entries, std::span<std::byte> pages);  // index_pages_of() pages
// Encrypts an encoded index where it is; the footer, whose other fields are there, learns how. False: no memory.
[[nodiscard]] bool seal_index(const Seal& seal, SegmentFooter& footer, std::span<std::byte> pages);
// corrupt if an entry lies outside the records of its segment, which end at `end_page`.
Result<std::vector<IndexEntry>> parse_index(std::span<const std::byte> pages, const SegmentFooter& footer,
                                            const Sealer* sealer = nullptr);

}  // namespace artesian
