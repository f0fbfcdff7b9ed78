#include "format/slot_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

namespace artesian {
namespace {

// The words of a file, as llama-server writes them; written down apart from the code under test.
class Words {
 public:
  Words& u32(std::initializer_list<std::int64_t> values) {
    for (const auto value : values) raw(static_cast<std::uint32_t>(value));
    return *this;
  }
  Words& u64(std::uint64_t value) { return raw(value); }
  Words& rows(std::size_t bytes, int fill) {
    bytes_.insert(bytes_.end(), bytes, static_cast<std::byte>(fill));
    return *this;
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  template <typename T>
  Words& raw(T value) {
    const auto view = std::as_bytes(std::span(&value, 1));
    bytes_.insert(bytes_.end(), view.begin(), view.end());
    return *this;
  }
  std::vector<std::byte> bytes_;
};

constexpr std::int64_t magic = 0x67677371;

// Three tokens in stream 1 of 2 and two layers, cells out of order.
std::vector<std::byte> version_4() {
  Words words;
  words.u32({magic, 4, 7, -1, 1, 3, 70, 71, 72, 0, 2, 0, 3});
  words.u32({2, 1, 5, 0, 1, 5, 1, 1, 5});
  words.u32({0, 2, 64, 0});
  words.u32({1}).u64(2).rows(2, 0xC).rows(2, 0xA).rows(2, 0xB);
  words.u32({1}).u64(4).rows(4, 0x3).rows(4, 0x1).rows(4, 0x2);
  words.u32({8}).u64(1).rows(1, 0x30).rows(1, 0x10).rows(1, 0x20);
  return words.bytes();
}

SlotLayout small_layout() {
  return {.rotation_keys = 3, .keys = {{1, 6}, {1, 10}, {1, 2}}, .values = {{8, 4}, {8, 2}, {1, 8}}};
}

void fill(std::span<std::byte> out, int seed) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(i * 31 + seed);
}

std::vector<std::byte> gathered(const std::vector<std::span<const std::byte>>& pieces) {
  std::vector<std::byte> bytes;
  for (const auto piece : pieces) bytes.insert(bytes.end(), piece.begin(), piece.end());
  return bytes;
}

void scatter(std::span<const std::byte> block, const std::vector<SlotPart>& parts, std::span<std::byte> out) {
  for (const SlotPart& part : parts) std::memcpy(out.data() + part.to, block.data() + part.from, part.bytes);
}

TEST(SlotFile, IsReadAsTheServerWroteIt) {
  const auto bytes = version_4();
  const auto file = parse_slot_file(bytes, "slot");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_THAT(file->tokens, testing::ElementsAre(70, 71, 72));
  EXPECT_EQ(file->streams, 2U);
  EXPECT_THAT(file->rows, testing::ElementsAre(1, 2, 0));
  EXPECT_EQ(file->layout.token_bytes(), 7U);
  EXPECT_EQ(file->layout.text(), "llama.cpp slot v4 rot 64 0 k1x1:2 k1x1:4 v1x8:1");
  const auto block = gathered(block_pieces(*file, bytes, 1, 2));  // tokens 71 and 72
  EXPECT_THAT(block,
              testing::ElementsAreArray(
                  Words().rows(2, 0xB).rows(2, 0xC).rows(4, 0x2).rows(4, 0x3).rows(1, 0x20).rows(1, 0x30).bytes()));
}

TEST(SlotFile, Version3AndPlainTokensAreKnown) {
  Words words;
  words.u32({magic, 3, 2, 8, 9, 1, 2, 0, 1, 0, 1, 1, 0, 0, 1}).u32({1}).u64(1).rows(2, 5).u32({1}).u64(2).rows(4, 6);
  const auto file = parse_slot_file(words.bytes(), "slot");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_THAT(file->tokens, testing::ElementsAre(8, 9));
  EXPECT_FALSE(file->layout.marked_tokens);
  EXPECT_TRUE(file->rows.empty());
  std::vector<std::byte> again(slot_file_bytes(file->layout, file->streams, 2));
  const auto written = write_slot_file(file->layout, file->streams, file->tokens, again);
  scatter(gathered(block_pieces(*file, words.bytes(), 0, 2)), block_parts(written, 0, 2, 2), again);
  EXPECT_EQ(again, words.bytes());
}

TEST(SlotFile, AnEmptySlotIsAFile) {
  Words words;
  words.u32({magic, 4, 4, -1, 1, 0, 0, 2, 0, 0});
  const auto file = parse_slot_file(words.bytes(), "slot");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(file->tokens.empty());
  EXPECT_EQ(file->streams, 2U);
}

TEST(SlotFile, AnyPrefixIsPutTogetherFromBlocks) {
  std::vector<Token> tokens(23);
  std::iota(tokens.begin(), tokens.end(), 100);
  std::vector<std::byte> whole(slot_file_bytes(small_layout(), 4, tokens.size()));
  fill(whole, 7);
  const SlotFile file = write_slot_file(small_layout(), 4, tokens, whole);
  for (std::size_t prefix = 1; prefix <= tokens.size(); ++prefix) {
    const auto kept = std::span(tokens).first(prefix);
    std::vector<std::byte> out(slot_file_bytes(small_layout(), 4, prefix));
    fill(out, 99);
    const SlotFile shorter = write_slot_file(small_layout(), 4, kept, out);
    for (std::size_t first = 0; first < prefix; first += 4) {
      const std::size_t count = std::min<std::size_t>(4, tokens.size() - first);
      scatter(gathered(block_pieces(file, whole, first, count)),
              block_parts(shorter, first, std::min(count, prefix - first), count), out);
    }
    // Rows and what lies beside them are all of the file.
    std::vector<std::byte> twin(out.size());
    scatter(out, parts_beside_rows(shorter), twin);
    scatter(gathered(block_pieces(shorter, out, 0, prefix)), block_parts(shorter, 0, prefix, prefix), twin);
    EXPECT_EQ(twin, out);
    const auto read = parse_slot_file(out, "slot");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->tokens, std::vector<Token>(kept.begin(), kept.end()));
    EXPECT_EQ(read->layout, small_layout());
    EXPECT_EQ(read->arrays, shorter.arrays);
    EXPECT_EQ(gathered(block_pieces(*read, out, 0, prefix)), gathered(block_pieces(file, whole, 0, prefix)));
  }
}

// Cut off behind an array, a file is one of a model with fewer values: another layout.
TEST(SlotFile, NoTruncationPassesForTheFile) {
  const auto bytes = version_4();
  const auto whole = parse_slot_file(bytes, "slot");
  ASSERT_TRUE(whole) << whole.error().message;
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const auto file = parse_slot_file(std::span(bytes).first(length), "slot");
    EXPECT_TRUE(!file || file->layout != whole->layout) << length;
  }
  auto longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(parse_slot_file(longer, "slot"));
}

// Each is one word of version_4() replaced.
TEST(SlotFile, WhatIsNotKnownIsRefusedWithASentence) {
  struct Case {
    std::size_t word;
    std::uint32_t value;
    const char* says;
  };
  const std::vector<Case> cases = {
      {0, 1, "magic"},
      {1, 5, "version is 5"},
      {1, 2, "version is 2"},
      {2, 1U << 30, "too early"},
      {4, 2, "another form"},
      {5, 4, "fewer tokens"},
      {5, 2, "media"},
      {6, 1U << 31, "negative"},
      {9, 1, "media"},
      {10, 0, "0 streams"},
      {11, 1, "2 sequences"},
      {12, 1U << 31, "too early"},
      {13, 1, "position 1"},
      {14, 2, "2 sequences"},
      {15, 6, "several sequences"},
      {22, 1, "transposed"},
      {23, 0, "0 layers"},
      {23, 1, "more than one cache"},
  };
  for (const auto& [word, value, says] : cases) {
    auto bytes = version_4();
    std::memcpy(bytes.data() + word * 4, &value, 4);
    const auto file = parse_slot_file(bytes, "slot");
    ASSERT_FALSE(file) << word;
    EXPECT_THAT(file.error().message, testing::HasSubstr(says)) << word;
    EXPECT_THAT(file.error().message, testing::StartsWith("slot: offset "));
  }
}

}  // namespace
}  // namespace artesian
