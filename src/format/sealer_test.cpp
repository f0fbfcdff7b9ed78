#include "format/sealer.h"

#include <gtest/gtest.h>

#include <set>

#include "base/little_endian.h"
#include "format/segment.h"

namespace artesian {
namespace {

SecretKey key_of(unsigned seed) {
  SecretKey key;
  for (std::size_t i = 0; i < key.bytes.size(); ++i) key.bytes[i] = static_cast<std::byte>(i * 11 + seed);
  return key;
}

constexpr SealScope first_epoch{.slot = 3, .epoch = 7};

std::shared_ptr<Sealer> sealer_of(unsigned opening, unsigned store_key = 1) {
  auto sealer = Sealer::make(key_of(store_key), Id{}, key_of(100 + opening)).value();
  sealer->use_namespace(first_epoch, key_of(50));
  return sealer;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// A record of two extents, and how it went to flash.
struct Sealed {
  std::string key = "the key of a block", parent = "its parent", attributes = "what the caller knows";
  std::vector<std::byte> payload{6000, std::byte{'p'}}, stored{6000, std::byte{0}};
  std::vector<Extent> extents{{4096, 4096}, {1904, 1904}};
  RecordHeader header;
  std::vector<std::byte> pages{store_page};

  explicit Sealed(const Sealer& sealer) {
    header = {.stored_bytes = 6000, .raw_bytes = 6000, .segment = 4, .page = 9, .sequence = 77, .generation = 99};
    header.epoch = first_epoch.epoch;
    header.key = bytes_of(key);
    header.parent = bytes_of(parent);
    header.attributes = bytes_of(attributes);
    const auto seal = sealer.next(first_epoch).value();
    header.payload_nonce = sealer.next_nonce();
    const std::span<const std::byte> whole = payload;
    EXPECT_TRUE(seal_payload(header, seal.key, std::span(&whole, 1), stored, extents));
    EXPECT_TRUE(encode_record(header, extents, Id{}, pages, &seal));
  }
  Status open(const Sealer& sealer) {
    const auto record = parse_record(pages, Id{}, &sealer);
    if (!record) return fail(record.error());
    const std::span<std::byte> whole = stored;
    return open_payload(*record, sealer, std::span(&whole, 1));
  }
};

bool holds(std::span<const std::byte> bytes, const std::string& text) {
  return !std::ranges::search(bytes, bytes_of(text)).empty();
}

TEST(Sealer, GivesEachOpeningOtherKeysAndEachSealAnotherNonce) {
  const auto one = sealer_of(1), two = sealer_of(2), other_store = sealer_of(1, 2);
  std::set<std::uint64_t> counters;
  for (int i = 0; i < 100; ++i) counters.insert(one->next(first_epoch)->nonce.counter);
  EXPECT_EQ(counters.size(), 100U);
  const auto in_one = one->next(first_epoch).value(), in_two = two->next(first_epoch).value();
  EXPECT_NE(in_one.nonce.opening, in_two.nonce.opening);
  EXPECT_NE(in_one.key.bytes, in_two.key.bytes);
  EXPECT_EQ(two->key_of(first_epoch, in_one.nonce.opening)->bytes, in_one.key.bytes);
  EXPECT_NE(one->next(scope_index)->key.bytes, one->next(scope_table)->key.bytes);
  EXPECT_NE(one->next(scope_index)->key.bytes, other_store->next(scope_index)->key.bytes);
  EXPECT_NE(one->hash_secret(), other_store->hash_secret());
  EXPECT_EQ(one->hash_secret(), two->hash_secret());
  EXPECT_NE(one->new_namespace_key(1)->bytes, one->new_namespace_key(2)->bytes);
  EXPECT_NE(one->new_namespace_key(1)->bytes, two->new_namespace_key(1)->bytes);
}

TEST(Sealer, ForgetsTheKeyOfAnErasedNamespace) {
  const auto sealer = sealer_of(1);
  Sealed record(*sealer);
  sealer->use_namespace({.slot = 3, .epoch = 8}, key_of(51));
  EXPECT_EQ(sealer->next(first_epoch).error().code, Code::not_found);
  EXPECT_EQ(parse_record(record.pages, Id{}, sealer.get()).error().code, Code::not_found);
  const RecordHeader envelope = parse_envelope(record.pages);
  EXPECT_EQ(envelope.segment, 4U);
  EXPECT_EQ(envelope.page, 9U);
  EXPECT_EQ(envelope.sequence, 77U);
  EXPECT_EQ(envelope.generation, 99U);
  EXPECT_EQ(envelope.pages(), 3U);
}

TEST(SealedRecord, ComesBackInAnotherOpeningAndShowsNothing) {
  Sealed sealed(*sealer_of(1));
  for (const auto& flash : {sealed.pages, sealed.stored}) {
    for (const std::string& secret : {sealed.key, sealed.parent, sealed.attributes, std::string("pppppp")}) {
      EXPECT_FALSE(holds(flash, secret)) << secret;
    }
  }
  const auto sealer = sealer_of(2);
  const auto record = parse_record(sealed.pages, Id{}, sealer.get());
  ASSERT_TRUE(record) << record.error().message;
  const RecordHeader copy = *record;  // has what it points to
  EXPECT_TRUE(std::ranges::equal(copy.key, bytes_of(sealed.key)));
  EXPECT_TRUE(std::ranges::equal(copy.parent, bytes_of(sealed.parent)));
  EXPECT_TRUE(std::ranges::equal(copy.attributes, bytes_of(sealed.attributes)));
  EXPECT_EQ(copy.generation, 99U);
  EXPECT_TRUE(whole_payload_is_good(copy, [&] {
    auto all = sealed.pages;
    all.insert(all.end(), sealed.stored.begin(), sealed.stored.end());
    return all;
  }()));
  ASSERT_TRUE(sealed.open(*sealer));
  EXPECT_EQ(sealed.stored, sealed.payload);
}

TEST(SealedRecord, IsRefusedWhereABitWasChangedThoughTheChecksumIsRight) {
  const auto sealer = sealer_of(1);
  for (std::size_t bit = 8 * 8; bit < store_page * 8; bit += bit < 2000 ? 1 : 37) {
    Sealed bad(*sealer);
    bad.pages[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    store_le(bad.pages, 4, store_crc(bad.pages, Id{}));
    EXPECT_FALSE(parse_record(bad.pages, Id{}, sealer.get())) << bit;
  }
  for (const std::size_t at : {std::size_t{0}, std::size_t{4095}, std::size_t{4096}, std::size_t{5999}}) {
    Sealed bad(*sealer);
    bad.stored[at] ^= std::byte{1};
    EXPECT_EQ(bad.open(*sealer).error().code, Code::corrupt) << at;
  }
  Sealed first(*sealer), second(*sealer);
  first.stored = second.stored;  // another record's payload, good in itself
  EXPECT_EQ(first.open(*sealer).error().code, Code::corrupt);
  EXPECT_EQ(second.open(*sealer_of(1, 1)).has_value(), true);
  EXPECT_FALSE(parse_record(first.pages, Id{}));  // without the key
}

TEST(SealedRecord, APlainOneIsNoneInAnEncryptedStore) {
  std::vector<std::byte> pages(store_page);
  const std::string key = "key";
  const Extent extent{1, 1, 0};
  ASSERT_TRUE(
      encode_record({.stored_bytes = 1, .raw_bytes = 1, .key = bytes_of(key)}, std::span(&extent, 1), Id{}, pages));
  EXPECT_TRUE(parse_record(pages, Id{}));
  EXPECT_EQ(parse_record(pages, Id{}, sealer_of(1).get()).error().code, Code::corrupt);
}

TEST(SealedRecord, IsSealedAnewWhereItMovesAndItsPayloadStays) {
  Sealed sealed(*sealer_of(1));
  const auto sealer = sealer_of(2);
  auto record = parse_record(sealed.pages, Id{}, sealer.get()).value();
  record.segment = 5;
  record.page = 30;
  record.sequence = 80;
  const auto before = sealed.pages;
  const auto seal = sealer->next(record.scope).value();
  ASSERT_TRUE(rewrite_record(record, Id{}, sealed.pages, &seal));
  EXPECT_NE(load_nonce(before, 64).opening, load_nonce(sealed.pages, 64).opening);
  const auto moved = parse_record(sealed.pages, Id{}, sealer.get());
  ASSERT_TRUE(moved) << moved.error().message;
  EXPECT_EQ(moved->segment, 5U);
  EXPECT_EQ(moved->page, 30U);
  EXPECT_EQ(moved->sequence, 80U);
  EXPECT_TRUE(std::ranges::equal(moved->key, bytes_of(sealed.key)));
  ASSERT_TRUE(sealed.open(*sealer));
  EXPECT_EQ(sealed.stored, sealed.payload);
}

TEST(SealedSlot, ShowsNothingAndIsRefusedWithAnotherKey) {
  const auto sealer = sealer_of(1);
  const NamespaceSlot slot{.revision = 4, .epoch = 9, .digest = {}, .text = R"({"model":"secret"})", .key = key_of(9)};
  std::vector<std::byte> page(store_page);
  const auto seal = sealer->next(scope_table).value();
  ASSERT_TRUE(encode_namespace_slot(slot, Id{}, page, &seal));
  EXPECT_FALSE(holds(page, "secret"));
  const auto back = parse_namespace_slot(page, Id{}, sealer_of(2).get());
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->text, slot.text);
  EXPECT_EQ(back->epoch, 9U);
  EXPECT_EQ(back->revision, 4U);
  EXPECT_EQ(back->key.bytes, slot.key.bytes);
  EXPECT_FALSE(parse_namespace_slot(page, Id{}, sealer_of(2, 2).get()));
  EXPECT_FALSE(parse_namespace_slot(page, Id{}));
  page[24] ^= std::byte{1};  // the epoch
  store_le(page, 4, store_crc(page, Id{}));
  EXPECT_EQ(parse_namespace_slot(page, Id{}, sealer.get()).error().code, Code::corrupt);
}

TEST(SealedIndex, ComesBackUnderItsOwnFooterAlone) {
  const auto sealer = sealer_of(1);
  const IndexEntry entry{.key = {1, 2}, .parent = {3, 4}, .generation = 5, .page = 1, .pages = 2, .header_pages = 1};
  std::vector<std::byte> pages(store_page);
  encode_index(std::span(&entry, 1), pages);
  const auto plain = pages;
  SegmentFooter footer{.segment = 1, .sequence = 8, .entries = 1, .index_page = 62, .end_page = 3};
  ASSERT_TRUE(seal_index(sealer->next(scope_index).value(), footer, pages));
  footer.index_crc = crc32c(pages);
  EXPECT_NE(pages, plain);
  const auto back = parse_index(pages, footer, sealer_of(2).get());
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->at(0).key, entry.key);
  EXPECT_EQ(back->at(0).parent, entry.parent);
  footer.sequence = 9;
  EXPECT_EQ(parse_index(pages, footer, sealer.get()).error().code, Code::corrupt);
}

}  // namespace
}  // namespace artesian
