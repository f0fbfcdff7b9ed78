#include "format/store_format.h"

#include <gtest/gtest.h>

#include <set>

namespace artesian {
namespace {

using Page = std::array<std::byte, store_page>;

Superblock some_superblock() {
  Superblock sb;
  sb.revision = 7;
  sb.store.fill(std::byte{1});
  sb.path.fill(std::byte{2});
  sb.path_index = 1;
  sb.path_count = 3;
  sb.segment_bytes = 1 * MiB;
  sb.segments = 40;
  sb.block_bytes_max = 8 * MiB;
  sb.generation = 1234567890123;
  for (std::size_t i = 0; i < sb.secret.size(); ++i) sb.secret[i] = static_cast<std::byte>(i * 7);
  return sb;
}

TEST(Superblock, ComesBackAsItWasWritten) {
  const Superblock sb = some_superblock();
  Page page;
  encode_superblock(sb, page);
  const auto back = parse_superblock(page);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->revision, sb.revision);
  EXPECT_EQ(back->store, sb.store);
  EXPECT_EQ(back->path, sb.path);
  EXPECT_EQ(back->path_index, 1U);
  EXPECT_EQ(back->path_count, 3U);
  EXPECT_EQ(back->segment_bytes, sb.segment_bytes);
  EXPECT_EQ(back->segments, sb.segments);
  EXPECT_EQ(back->block_bytes_max, sb.block_bytes_max);
  EXPECT_EQ(back->generation, sb.generation);
  EXPECT_EQ(back->secret, sb.secret);
  EXPECT_EQ(back->file_bytes(), 2 * MiB + 40 * MiB);
}

TEST(Superblock, IsWhereTheDocumentSaysItIs) {
  Page page;
  encode_superblock(some_superblock(), page);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(page.data()), 8), "ARTESIAN");
  EXPECT_EQ(page[12], std::byte{2});  // version
  EXPECT_EQ(page[16], std::byte{7});  // revision
  EXPECT_EQ(page[24], std::byte{1});  // store id
  EXPECT_EQ(page[80], std::byte{40});
  EXPECT_EQ(page[105], std::byte{7});  // secret
}

TEST(Superblock, NoFlippedBitPasses) {
  Page page;
  encode_superblock(some_superblock(), page);
  for (std::size_t bit = 0; bit < store_page * 8; bit += bit < 4096 ? 1 : 61) {
    page[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(parse_superblock(page)) << bit;
    page[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
  EXPECT_TRUE(parse_superblock(page));
}

TEST(Superblock, RefusesGeometryThatIsNone) {
  for (const auto spoil :
       {+[](Superblock& sb) { sb.segment_bytes = 4096; }, +[](Superblock& sb) { sb.segment_bytes += 4096; },
        +[](Superblock& sb) { sb.segment_bytes = 32 * GiB; }, +[](Superblock& sb) { sb.segments = 1; },
        +[](Superblock& sb) { sb.segments = UINT32_MAX; }, +[](Superblock& sb) { sb.block_bytes_max = 1; },
        +[](Superblock& sb) { sb.block_bytes_max = 1 * GiB; }, +[](Superblock& sb) { sb.data_offset = 0; },
        +[](Superblock& sb) { sb.path_count = 0; }, +[](Superblock& sb) { sb.path_index = 3; }}) {
    Superblock sb = some_superblock();
    spoil(sb);
    EXPECT_EQ(check_superblock(sb).error().code, Code::invalid);
    Page page;
    encode_superblock(sb, page);  // a good CRC over nonsense
    EXPECT_FALSE(parse_superblock(page));
  }
}

TEST(NamespaceSlot, ComesBackAndOnlyInItsOwnStore) {
  NamespaceSlot slot{.revision = 3, .epoch = 77, .digest = {}, .text = R"({"model":"m"})"};
  slot.digest.fill(std::byte{9});
  Id store{}, other{};
  other[15] = std::byte{1};
  Page page;
  ASSERT_TRUE(encode_namespace_slot(slot, store, page));
  const auto back = parse_namespace_slot(page, store);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->revision, 3U);
  EXPECT_EQ(back->epoch, 77U);
  EXPECT_EQ(back->digest, slot.digest);
  EXPECT_EQ(back->text, slot.text);
  EXPECT_EQ(parse_namespace_slot(page, other).error().code, Code::corrupt);
  EXPECT_EQ(parse_namespace_slot(Page{}, store).error().code, Code::not_found);
}

TEST(NamespaceDigest, EveryFieldCounts) {
  const NamespaceFields plain{.model = "m", .weights = "w", .dtype = "bf16", .layout = "l", .block_tokens = 16};
  std::set<NamespaceDigest> seen{namespace_digest(plain).value()};
  EXPECT_EQ(namespace_digest(plain).value(), *seen.begin());
  for (const auto change : {+[](NamespaceFields& f) { f.model = "n"; }, +[](NamespaceFields& f) { f.weights = "v"; },
                            +[](NamespaceFields& f) { f.dtype = "fp16"; }, +[](NamespaceFields& f) { f.layout = ""; },
                            +[](NamespaceFields& f) { f.block_tokens = 32; }, +[](NamespaceFields& f) { f.rank = 1; },
                            +[](NamespaceFields& f) { f.world_size = 2; }, +[](NamespaceFields& f) { f.adapter = "a"; },
                            +[](NamespaceFields& f) { f.salt = "a"; },
                            +[](NamespaceFields& f) {
                              f.model = "mw";
                              f.weights = "";
                            }}) {
    NamespaceFields fields = plain;
    change(fields);
    EXPECT_TRUE(seen.insert(namespace_digest(fields).value()).second);
  }
}

TEST(KeyHash, DependsOnSecretNamespaceEpochAndEveryByteOfTheKey) {
  const HashSecret secret = some_superblock().secret;
  HashSecret other = secret;
  for (std::byte& value : other) value ^= std::byte{1};  // not every byte counts for every length
  NamespaceDigest ns{}, ns2{};
  ns2[31] = std::byte{1};
  std::vector<std::byte> key(255);
  std::set<KeyHash> seen{hash_key(secret, ns, 1, key)};
  EXPECT_EQ(hash_key(secret, ns, 1, key), *seen.begin());
  EXPECT_TRUE(seen.insert(hash_key(other, ns, 1, key)).second);
  EXPECT_TRUE(seen.insert(hash_key(secret, ns2, 1, key)).second);
  EXPECT_TRUE(seen.insert(hash_key(secret, ns, 2, key)).second);
  for (std::size_t i = 0; i < key.size(); ++i) {
    key[i] = std::byte{1};
    EXPECT_TRUE(seen.insert(hash_key(secret, ns, 1, key)).second);
    key[i] = std::byte{0};
    EXPECT_TRUE(i == 0 || seen.insert(hash_key(secret, ns, 1, std::span(key).first(i))).second);
  }
}

}  // namespace
}  // namespace artesian
