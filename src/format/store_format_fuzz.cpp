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

void try_record(std::span<const std::byte> pages, const Id& store, const Sealer* sealer = nullptr) {
  const auto record = parse_record(pages, store, sealer);
  if (!record) return require(!record.error().message.empty());
  require(record->header_pages * store_page <= pages.size());
  require(record->stored_bytes <= block_bytes_limit && record->raw_bytes <= block_bytes_limit);
  require(record->kind == RecordKind::erasures || !record->key.empty());
  for (const auto part : {record->key, record->parent, record->attributes, record->extent_table}) {
    if (sealer != nullptr) break;  // there they are in memory of the record's own
    require(part.empty() || (part.data() >= pages.data() && part.data() + part.size() <= pages.data() + pages.size()));
  }
  std::uint64_t stored = 0;
  for (std::uint32_t i = 0; i < record->extent_count(); ++i) stored += record->extent(i).stored_bytes;
  require(stored == record->stored_bytes);
  const auto rest = pages.subspan(record->header_pages * store_page);
  if (rest.size() < record->stored_bytes) return;
  const auto payload = rest.first(record->stored_bytes);
  verify_payload(*record, std::span(&payload, 1));
  if (sealer == nullptr) return;
  std::vector<std::byte> copy(payload.begin(), payload.end());
  const std::span<std::byte> in_place = copy;
  static_cast<void>(open_payload(*record, *sealer, std::span(&in_place, 1)));
}

// The bytes as the header inside an envelope, sealed as by a writer who has the key, and the bytes as they are.
void try_sealed(std::vector<std::byte> pages, const Id& store) {
  static const auto sealer = Sealer::make(SecretKey(), Id{}, SecretKey()).value();
  sealer->use_namespace({.slot = 1, .epoch = 1}, SecretKey());
  const auto seal = sealer->next({.slot = 1, .epoch = 1});
  require(seal.has_value());
  try_record(pages, store, sealer.get());
  static_cast<void>(parse_namespace_slot(std::span(pages).first(store_page), store, sealer.get()));
  RecordHeader header{.stored_bytes = 100, .segment = 1, .page = 1};
  header.header_pages = static_cast<std::uint32_t>(std::min<std::size_t>(pages.size() / store_page, 9));
  const std::shared_ptr<std::byte[]> inner(new std::byte[pages.size()]);
  std::ranges::copy(pages, inner.get());
  header.opened = inner;
  require(rewrite_record(header, store, pages, &*seal));
  try_record(pages, store, sealer.get());
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
  try_sealed(pages, store);
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
