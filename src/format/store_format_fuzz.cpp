// libFuzzer: no bytes may crash the readers of superblock, namespace slot, segment, index and record, and what they
// accept lies inside what they were given. The fuzzer cannot guess a CRC, so it is made right now and then.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "base/crc32c.h"
#include "base/little_endian.h"
#include "format/segment.h"

namespace {

using namespace artesian;

void require(bool holds) {
  if (!holds) std::abort();
}

void try_record(std::span<const std::byte> pages, const Id& store) {
  const auto record = parse_record(pages, store);
  if (!record) return require(!record.error().message.empty());
  require(record->header_pages * store_page <= pages.size());
  require(record->stored_bytes <= block_bytes_limit && record->raw_bytes <= block_bytes_limit);
  require(record->kind == RecordKind::erasures || !record->key.empty());
  for (const auto part : {record->key, record->parent, record->attributes, record->extent_table}) {
    require(part.empty() || (part.data() >= pages.data() && part.data() + part.size() <= pages.data() + pages.size()));
  }
  std::uint64_t stored = 0;
  for (std::uint32_t i = 0; i < record->extent_count(); ++i) stored += record->extent(i).stored_bytes;
  require(stored == record->stored_bytes);
  const auto rest = pages.subspan(record->header_pages * store_page);
  if (rest.size() < record->stored_bytes) return;
  const auto payload = rest.first(record->stored_bytes);
  verify_payload(*record, std::span(&payload, 1));
}

void try_index(std::span<const std::byte> pages, SegmentFooter footer) {
  footer.index_crc = crc32c(pages);
  footer.entries = static_cast<std::uint32_t>(pages.size() / index_entry_bytes);
  const auto entries = parse_index(pages, footer);
  if (!entries) return;
  for (const IndexEntry& entry : *entries) require(entry.page + entry.pages <= footer.end_page);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  if (bytes == 0) return 0;
  std::vector<std::byte> pages(pages_of(bytes) * store_page);
  std::memcpy(pages.data(), data + 1, bytes - 1);
  const auto page = std::span(pages).first(store_page);
  const Id store{};
  if ((data[0] & 1) != 0) {  // good CRCs, as of a hostile writer who knows the format
    const std::size_t stated = std::max<std::size_t>(stated_header_pages(page), 1) * store_page;
    store_le(page, 4, store_crc(std::span(pages).first(std::min(stated, pages.size())), store));
  }
  try_record(pages, store);
  static_cast<void>(parse_segment_header(page, store));
  static_cast<void>(parse_namespace_slot(page, store));
  if (const auto footer = parse_segment_footer(page, store, 64)) {
    require(footer->index_page + footer->index_pages() + 1 == 64);
    try_index(std::span(pages).subspan(store_page), *footer);
  }
  if ((data[0] & 2) != 0) store_le(page, 8, crc32c(page.subspan(12)));
  if (const auto superblock = parse_superblock(page)) require(check_superblock(*superblock).has_value());
  return 0;
}
