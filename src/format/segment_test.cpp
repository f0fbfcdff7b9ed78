#include "format/segment.h"

#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "base/little_endian.h"

namespace artesian {
namespace {

using Page = std::array<std::byte, store_page>;
constexpr std::uint32_t segment_pages = 64;

TEST(SegmentHeader, ComesBackAndNoFlippedBitPasses) {
  Page page;
  encode_segment_header({.segment = 1, .sequence = 2, .generation = 3, .lifetime = 4, .placement = 5}, Id{}, page);
  const auto back = parse_segment_header(page, Id{});
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->segment, 1U);
  EXPECT_EQ(back->sequence, 2U);
  EXPECT_EQ(back->generation, 3U);
  EXPECT_EQ(back->lifetime, 4);
  EXPECT_EQ(back->placement, 5);
  for (std::size_t bit = 0; bit < store_page * 8; bit += bit < 512 ? 1 : 61) {
    page[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(parse_segment_header(page, Id{})) << bit;
    page[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
  EXPECT_EQ(parse_segment_footer(page, Id{}, segment_pages).error().code, Code::not_found);
}

struct Sealed {
  std::vector<IndexEntry> entries;
  std::vector<std::byte> index;
  SegmentFooter footer;
};

Sealed seal(std::size_t count) {
  Sealed sealed;
  for (std::size_t i = 0; i < count; ++i) {
    sealed.entries.push_back({.key = {i, 1},
                              .parent = {i, 2},
                              .generation = 100 + i,
                              .page = static_cast<std::uint32_t>(1 + i),
                              .pages = 1,
                              .header_pages = 1,
                              .position = 9,
                              .lifetime = 3,
                              .session = 4});
  }
  sealed.index.resize(index_pages_of(count) * store_page);
  encode_index(sealed.entries, sealed.index);
  sealed.footer = {.segment = 1,
                   .sequence = 2,
                   .generation = 3,
                   .entries = static_cast<std::uint32_t>(count),
                   .index_page = segment_pages - 1 - index_pages_of(count),
                   .index_crc = crc32c(sealed.index),
                   .end_page = static_cast<std::uint32_t>(1 + count)};
  return sealed;
}

TEST(SegmentIndex, ComesBack) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{60}}) {
    const Sealed sealed = seal(count);
    Page page;
    encode_segment_footer(sealed.footer, Id{}, page);
    const auto footer = parse_segment_footer(page, Id{}, segment_pages);
    ASSERT_TRUE(footer) << footer.error().message;
    EXPECT_EQ(footer->entries, count);
    EXPECT_EQ(footer->sequence, 2U);
    const auto entries = parse_index(sealed.index, *footer);
    ASSERT_TRUE(entries) << entries.error().message;
    ASSERT_EQ(entries->size(), count);
    if (count == 0) continue;
    const IndexEntry& last = entries->back();
    EXPECT_EQ(last.key, (KeyHash{count - 1, 1}));
    EXPECT_EQ(last.parent, (KeyHash{count - 1, 2}));
    EXPECT_EQ(last.generation, 99 + count);
    EXPECT_EQ(last.page, count);
    EXPECT_EQ(last.position, 9U);
    EXPECT_EQ(last.lifetime, 3);
    EXPECT_EQ(last.session, 4U);
  }
}

TEST(SegmentIndex, DamagedOrHostileOnesAreRefused) {
  Sealed sealed = seal(8);
  sealed.index[70] ^= std::byte{1};
  EXPECT_EQ(parse_index(sealed.index, sealed.footer).error().code, Code::corrupt);
  EXPECT_EQ(parse_index({}, sealed.footer).error().code, Code::corrupt);
  const auto spoil = [](std::size_t at, auto value) {
    Sealed bad = seal(8);
    store_le(std::span(bad.index), index_entry_bytes + at, value);
    bad.footer.index_crc = crc32c(bad.index);
    EXPECT_FALSE(parse_index(bad.index, bad.footer)) << at;
  };
  spoil(40, std::uint32_t{0});  // page 0 is the segment's header
  spoil(40, std::uint32_t{9});  // behind the last record
  spoil(40, std::uint32_t{0xFFFFFFFF});
  spoil(44, std::uint16_t{0});
  spoil(44, std::uint16_t{0xFFFF});
  spoil(46, std::uint8_t{0});
  spoil(46, std::uint8_t{2});
  spoil(47, std::uint8_t{7});
}

TEST(SegmentFooter, ThatDoesNotFitItsSegmentIsRefused) {
  const auto refuse = [](auto spoil) {
    SegmentFooter footer = seal(8).footer;
    spoil(footer);
    Page page;
    encode_segment_footer(footer, Id{}, page);
    EXPECT_EQ(parse_segment_footer(page, Id{}, segment_pages).error().code, Code::corrupt);
  };
  refuse([](SegmentFooter& footer) { footer.entries = UINT32_MAX; });
  refuse([](SegmentFooter& footer) { footer.index_page = 0; });
  refuse([](SegmentFooter& footer) { footer.index_page = UINT32_MAX; });
  refuse([](SegmentFooter& footer) { footer.end_page = 0; });
  refuse([](SegmentFooter& footer) { footer.end_page = footer.index_page + 1; });
}

}  // namespace
}  // namespace artesian
