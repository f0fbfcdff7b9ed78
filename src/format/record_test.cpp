#include "format/record.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/crc32c.h"
#include "base/little_endian.h"

namespace artesian {
namespace {

std::vector<std::byte> bytes_like(std::size_t count, unsigned seed) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>((i * 31 + seed) >> 2);
  return bytes;
}

struct Made {
  std::vector<std::byte> key, parent, attributes, payload, pages;
  std::vector<Extent> extents;
  RecordHeader header;
  Id store{};
};

Made make(std::size_t key, std::size_t parent, std::size_t attributes, std::size_t extents) {
  Made made{.key = bytes_like(key, 1), .parent = bytes_like(parent, 2), .attributes = bytes_like(attributes, 3)};
  made.store.fill(std::byte{5});
  made.payload = bytes_like(extents * 1000, 4);
  for (std::size_t i = 0; i < extents; ++i) {
    made.extents.push_back({1000, 1000, crc32c(std::span(made.payload).subspan(i * 1000, 1000))});
  }
  RecordHeader& header = made.header;
  header.lifetime = 2;
  header.io_class = 1;
  header.stored_bytes = header.raw_bytes = static_cast<std::uint32_t>(made.payload.size());
  header.segment = 11;
  header.page = 12;
  header.sequence = 13;
  header.generation = 14;
  header.ns.fill(std::byte{6});
  header.epoch = 15;
  header.session = 16;
  header.position = 17;
  header.tokens = 18;
  header.deadline_ms = 19;
  header.next_use_ms = 20;
  header.key = made.key;
  header.parent = made.parent;
  header.attributes = made.attributes;
  made.pages.resize(record_header_pages(key, parent, attributes, extents, false) * store_page);
  EXPECT_TRUE(encode_record(header, made.extents, made.store, made.pages));
  return made;
}

void set_crc(Made& made) {
  store_le(std::span(made.pages), 4, store_crc(made.pages, made.store));
}

bool verify(const RecordHeader& header, std::span<const std::byte> payload) {
  const std::array whole{payload};
  const std::array cut{payload.first(1), payload.subspan(1, 999), payload.subspan(1000)};
  const bool good = verify_payload(header, whole);
  EXPECT_EQ(verify_payload(header, cut), good);
  return good;
}

TEST(Record, ComesBackAsItWasWritten) {
  for (const auto& made : {make(1, 0, 0, 1), make(36, 36, 10, 64), make(255, 255, 1024, 1024)}) {
    const auto back = parse_record(made.pages, made.store);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(back->kind, RecordKind::block);
    EXPECT_EQ(back->lifetime, 2);
    EXPECT_EQ(back->segment, 11U);
    EXPECT_EQ(back->page, 12U);
    EXPECT_EQ(back->sequence, 13U);
    EXPECT_EQ(back->generation, 14U);
    EXPECT_EQ(back->ns, made.header.ns);
    EXPECT_EQ(back->epoch, 15U);
    EXPECT_EQ(back->session, 16U);
    EXPECT_EQ(back->position, 17U);
    EXPECT_EQ(back->tokens, 18U);
    EXPECT_EQ(back->deadline_ms, 19U);
    EXPECT_EQ(back->next_use_ms, 20U);
    EXPECT_TRUE(std::ranges::equal(back->key, made.key));
    EXPECT_TRUE(std::ranges::equal(back->parent, made.parent));
    EXPECT_TRUE(std::ranges::equal(back->attributes, made.attributes));
    ASSERT_EQ(back->extent_count(), made.extents.size());
    EXPECT_EQ(back->extent(0).crc, made.extents[0].crc);
    EXPECT_EQ(back->header_pages, made.pages.size() / store_page);
    EXPECT_TRUE(verify(*back, made.payload));
  }
}

TEST(Record, IsWhereTheDocumentSaysItIs) {
  const Made made = make(3, 2, 1, 2);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(made.pages.data()), 4), "ARTR");
  EXPECT_EQ(load_le<std::uint32_t>(made.pages, 32), 11U);
  EXPECT_EQ(load_le<std::uint64_t>(made.pages, 48), 14U);
  EXPECT_EQ(made.pages[160], made.key[0]);
  EXPECT_EQ(load_le<std::uint32_t>(made.pages, 168 + 32 + 8), made.extents[1].crc);  // 166 and padding
}

TEST(Record, NoFlippedBitOfTheHeaderPasses) {
  Made made = make(36, 36, 0, 2);
  for (std::size_t bit = 0; bit < made.pages.size() * 8; bit += bit < 3000 ? 1 : 37) {
    made.pages[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(parse_record(made.pages, made.store)) << bit;
    made.pages[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
}

TEST(Record, NoFlippedBitOfThePayloadPasses) {
  Made made = make(36, 0, 0, 3);
  const auto header = parse_record(made.pages, made.store).value();
  for (std::size_t bit = 0; bit < made.payload.size() * 8; bit += 13) {
    made.payload[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(verify(header, made.payload)) << bit;
    made.payload[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
}

TEST(Record, OfAnotherStoreIsNone) {
  const Made made = make(36, 0, 0, 1);
  EXPECT_FALSE(parse_record(made.pages, Id{}));
}

TEST(Record, HeadersThatContradictThemselvesAreRefusedEvenWithAGoodChecksum) {
  const auto spoil = [](std::size_t at, auto value) {
    Made made = make(36, 36, 8, 2);
    store_le(std::span(made.pages), at, value);
    set_crc(made);
    EXPECT_FALSE(parse_record(made.pages, made.store)) << at;
  };
  spoil(8, std::uint16_t{2});  // version
  spoil(10, std::uint8_t{0});  // kind
  spoil(10, std::uint8_t{9});
  spoil(14, std::uint8_t{0});      // no key
  spoil(16, std::uint16_t{2000});  // attributes beyond the limit
  spoil(16, std::uint16_t{0xFFFF});
  spoil(18, std::uint16_t{0});  // extents
  spoil(18, std::uint16_t{0xFFFF});
  spoil(20, std::uint16_t{2});     // header pages
  spoil(22, std::uint16_t{1});     // flags
  spoil(24, std::uint32_t{1999});  // payload
  spoil(24, std::uint32_t{0xFFFFFFFF});
  spoil(28, std::uint32_t{2001});
}

TEST(Record, AHeaderThatIsCutOffIsNone) {
  const Made made = make(255, 255, 1024, 500);
  ASSERT_GT(made.pages.size(), store_page);
  EXPECT_EQ(stated_header_pages(made.pages), made.pages.size() / store_page);
  EXPECT_FALSE(parse_record(std::span(made.pages).first(made.pages.size() - store_page), made.store));
  EXPECT_EQ(stated_header_pages(std::vector<std::byte>(store_page)), 0U);
}

TEST(Record, ErasuresComeBack) {
  const std::vector<Erasure> erasures{{{1, 2}, 3, 4}, {{5, 6}, 7, 8}};
  std::vector<std::byte> payload(erasures.size() * erasure_bytes);
  encode_erasures(erasures, payload);
  const auto back = parse_erasures(payload);
  ASSERT_EQ(back.size(), 2U);
  EXPECT_EQ(back[1].key, erasures[1].key);
  EXPECT_EQ(back[1].generation, 7U);
  EXPECT_EQ(back[1].sequence, 8U);
}

}  // namespace
}  // namespace artesian
