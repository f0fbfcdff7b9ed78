#include "base/aes_gcm.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace artesian {
namespace {

std::vector<std::byte> from_hex(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

template <std::size_t n>
std::array<std::byte, n> array_of(const std::string& hex) {
  std::array<std::byte, n> array{};
  const auto bytes = from_hex(hex);
  EXPECT_EQ(bytes.size(), n);
  std::memcpy(array.data(), bytes.data(), n);
  return array;
}

// Test case 16 of McGrew and Viega's GCM specification.
struct Vector {
  SecretKey key{array_of<32>("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308")};
  GcmNonce nonce = array_of<12>("cafebabefacedbaddecaf888");
  GcmTag tag = array_of<16>("76fc6ece0f4e1768cddf8853bb2d551b");
  std::vector<std::byte> associated = from_hex("feedfacedeadbeeffeedfacedeadbeefabaddad2");
  std::vector<std::byte> plain = from_hex(
      "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
      "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39");
  std::vector<std::byte> sealed = from_hex(
      "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
      "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662");
};

TEST(AesGcm, SealsAsTheSpecificationSays) {
  Vector v;
  AesGcm gcm;
  std::vector<std::byte> out(v.plain.size());
  GcmTag tag{};
  ASSERT_TRUE(gcm.begin_seal(v.key, v.nonce, v.associated));
  // In pieces that end inside a block of the cipher.
  ASSERT_TRUE(gcm.add(std::span(v.plain).first(7), out.data()));
  ASSERT_TRUE(gcm.add(std::span(v.plain).subspan(7, 30), out.data() + 7));
  ASSERT_TRUE(gcm.add(std::span(v.plain).subspan(37), out.data() + 37));
  ASSERT_TRUE(gcm.end_seal(tag));
  EXPECT_EQ(out, v.sealed);
  EXPECT_EQ(tag, v.tag);
}

TEST(AesGcm, OpensInPlaceAndNothingThatWasChanged) {
  Vector v;
  AesGcm gcm;
  auto bytes = v.sealed;
  ASSERT_TRUE(gcm.begin_open(v.key, v.nonce, v.associated));
  ASSERT_TRUE(gcm.add(bytes, bytes.data()));
  EXPECT_TRUE(gcm.end_open(v.tag));
  EXPECT_EQ(bytes, v.plain);
  for (int what = 0; what < 5; ++what) {
    Vector bad;
    std::byte* const targets[] = {&bad.sealed[3], &bad.tag[0], &bad.nonce[5], &bad.associated[1], &bad.key.bytes[31]};
    *targets[what] ^= std::byte{1};
    ASSERT_TRUE(gcm.begin_open(bad.key, bad.nonce, bad.associated));
    ASSERT_TRUE(gcm.add(bad.sealed, bytes.data()));
    EXPECT_FALSE(gcm.end_open(bad.tag)) << what;
  }
}

// Test case 1 of RFC 5869 has a key of 22 bytes; this one is Python's, by the hmac module, with a key of 32.
TEST(Derive, IsHkdfWithSha256) {
  SecretKey key;
  for (std::size_t i = 0; i < 32; ++i) key.bytes[i] = static_cast<std::byte>(i);
  std::vector<std::byte> out(48), other(48);
  ASSERT_TRUE(derive(key, from_hex("a0a1a2a3"), "label", out));
  EXPECT_EQ(
      out,
      from_hex("472a703dddc3e0ba75fd5bd3263d6ec01f055f4caaf4486bc44a3621219bc007e47a90438f5acfa2d5c46dffee384faa"));
  ASSERT_TRUE(derive(key, from_hex("a0a1a2a3"), "labels", other));
  EXPECT_NE(out, other);
  ASSERT_TRUE(derive(key, from_hex("a0a1a2a4"), "label", other));
  EXPECT_NE(out, other);
}

}  // namespace
}  // namespace artesian
