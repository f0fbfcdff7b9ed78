// One suite over every codec: what goes in comes out, at every size; and what only the exponent codec promises.
#include "codec/codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/units.h"

namespace artesian {
namespace {

using Bytes = std::vector<std::byte>;

constexpr ElementType types[] = {ElementType::unknown, ElementType::bf16, ElementType::fp16, ElementType::fp8_e4m3,
                                 ElementType::fp8_e5m2};

// Normally distributed numbers as the type has them, or random bytes where it has no numbers.
Bytes numbers(ElementType type, std::size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  Bytes out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    const float value = normal(random);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    switch (type) {
      case ElementType::bf16:
        out[i] = static_cast<std::byte>(i % 2 == 0 ? random() : bits >> 24);
        if (i % 2 == 1) out[i - 1] = (out[i - 1] & std::byte{0x7f}) | static_cast<std::byte>(bits >> 16 & 0x80);
        break;
      case ElementType::fp16:
      case ElementType::fp8_e5m2: {
        const auto half = std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
        out[i] = static_cast<std::byte>(type == ElementType::fp16 && i % 2 == 0 ? random() : half >> 8);
        break;
      }
      case ElementType::fp8_e4m3: {  // 2 bits of exponent less than E5M2's at the same mantissa: rounded down
        const int exponent = std::clamp(std::ilogb(value) + 7, 1, 15);
        out[i] = static_cast<std::byte>((bits >> 24 & 0x80) | static_cast<unsigned>(exponent) << 3 | (random() & 7));
        break;
      }
      case ElementType::unknown:
        out[i] = static_cast<std::byte>(random());
        break;
    }
  }
  return out;
}

class EveryCodec : public testing::TestWithParam<CodecInfo> {
 protected:
  // Encodes, and if it shrank decodes and compares; returns the stored bytes, or all of them.
  std::size_t there_and_back(ElementType type, const Bytes& raw) {
    Bytes out(raw.size() + 16, std::byte{0xa5});
    const auto stored = codec_->encode(type, raw, std::span(out).first(raw.size()));
    for (std::size_t i = raw.size(); i < out.size(); ++i)
      EXPECT_EQ(out[i], std::byte{0xa5}) << "written behind the end";
    if (!stored) return raw.size();
    EXPECT_LT(*stored, raw.size());
    Bytes again(raw.size(), std::byte{0x5a});
    const Status status = codec_->decode(std::span(out).first(*stored), again);
    EXPECT_TRUE(status) << status.error().message;
    EXPECT_TRUE(raw == again);
    return *stored;
  }

  std::unique_ptr<Codec> codec_ = GetParam().make();
};

TEST_P(EveryCodec, IsFoundByNameAndId) {
  EXPECT_EQ(find_codec(GetParam().id)->name, GetParam().name);
  EXPECT_EQ(find_codec(GetParam().name)->id, GetParam().id);
  EXPECT_EQ(find_codec(static_cast<CodecId>(200)), nullptr);
  EXPECT_EQ(find_codec("zip"), nullptr);
}

TEST_P(EveryCodec, GivesBackEverySizeAndType) {
  constexpr std::size_t largest = 1'000'003;
  const Bytes noise = numbers(ElementType::unknown, largest, 3), zeros(largest);
  const auto front = [](const Bytes& all, std::size_t bytes) {
    return Bytes(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(bytes));
  };
  std::vector<std::size_t> sizes{4095,    4096,    4097,    131'071, 131'072, 131'073,
                                 262'143, 262'144, 262'145, 262'146, 737'280, largest};
  for (std::size_t bytes = 0; bytes < 70; ++bytes) sizes.push_back(bytes);
  for (const ElementType type : types) {
    const Bytes all = numbers(type, largest, 2);
    for (const std::size_t bytes : sizes) {
      SCOPED_TRACE(bytes);
      there_and_back(type, front(all, bytes));
      there_and_back(type, front(noise, bytes));  // not what it was said to be
      there_and_back(type, front(zeros, bytes));
    }
  }
}

TEST_P(EveryCodec, TakesTheLargestBlock) {
  Bytes raw;
  const Bytes part = numbers(ElementType::bf16, MiB, 4);
  while (raw.size() < 64 * MiB) raw.insert(raw.end(), part.begin(), part.end());
  there_and_back(ElementType::bf16, raw);
}

TEST_P(EveryCodec, IsDeterministicAndKeepsNothingOfTheBlockBefore) {
  const Bytes raw = numbers(ElementType::bf16, 100'000, 5);
  Bytes first(raw.size()), second(raw.size());
  const auto bytes = codec_->encode(ElementType::bf16, raw, first);
  there_and_back(ElementType::fp16, numbers(ElementType::fp16, 300'001, 6));
  EXPECT_EQ(codec_->encode(ElementType::bf16, raw, second), bytes);
  EXPECT_TRUE(first == second || !bytes);
}

TEST_P(EveryCodec, RefusesAnythingElseWithASentence) {
  const Bytes raw = numbers(ElementType::bf16, 600'001, 7);
  Bytes stored(raw.size());
  stored.resize(codec_->encode(ElementType::bf16, raw, stored).value_or(raw.size()));
  Bytes out(raw.size());
  const auto refuses = [&](std::span<const std::byte> bytes, std::size_t size) {
    const Status status = codec_->decode(bytes, std::span(out).first(size));
    return !status && status.error().code == Code::corrupt && !status.error().message.empty();
  };
  EXPECT_TRUE(refuses({}, raw.size()));
  for (std::size_t cut = 0; cut < stored.size(); cut += 1 + cut / 50) {
    EXPECT_TRUE(refuses(std::span(stored).first(cut), raw.size())) << cut;
  }
  stored.push_back({});
  EXPECT_TRUE(refuses(stored, raw.size()));
  stored.pop_back();
  EXPECT_TRUE(refuses(stored, raw.size() - 1));
  EXPECT_TRUE(refuses(stored, 0));
}

INSTANTIATE_TEST_SUITE_P(All, EveryCodec, testing::ValuesIn(codecs().begin(), codecs().end()),
                         [](const auto& row) { return std::string(row.param.name); });

class ExponentCodecTest : public testing::Test {
 protected:
  double stored_share(ElementType type, const Bytes& raw) {
    Bytes out(raw.size());
    return static_cast<double>(codec_->encode(type, raw, out).value_or(raw.size())) / static_cast<double>(raw.size());
  }
  std::unique_ptr<Codec> codec_ = find_codec(CodecId::exponent)->make();
};

// Normally distributed: 2.5 bits in an exponent. BF16 keeps 8 + 2.5 of 16 bits, and so on.
TEST_F(ExponentCodecTest, SavesWhatTheExponentsHaveToSpare) {
  EXPECT_LT(stored_share(ElementType::bf16, numbers(ElementType::bf16, MiB, 1)), .675);
  EXPECT_LT(stored_share(ElementType::fp16, numbers(ElementType::fp16, MiB, 1)), .86);
  EXPECT_LT(stored_share(ElementType::fp8_e4m3, numbers(ElementType::fp8_e4m3, MiB, 1)), .84);
  EXPECT_LT(stored_share(ElementType::fp8_e5m2, numbers(ElementType::fp8_e5m2, MiB, 1)), .73);
  EXPECT_LT(stored_share(ElementType::bf16, numbers(ElementType::bf16, 4096, 1)), .72);
}

TEST_F(ExponentCodecTest, SaysWhenABlockDoesNotShrink) {
  for (const ElementType type : types) {
    EXPECT_EQ(stored_share(type, numbers(ElementType::unknown, MiB, 1)), 1.);
    EXPECT_FALSE(codec_->encode(type, {}, {}));
  }
  EXPECT_EQ(stored_share(ElementType::unknown, numbers(ElementType::bf16, MiB, 1)), 1.);
  Bytes small(100);
  EXPECT_FALSE(codec_->encode(ElementType::bf16, numbers(ElementType::bf16, 4096, 1), small)) << "no room to write";
}

// Two equal halves, in each of which all values are equally likely: only matches could make them smaller.
TEST_F(ExponentCodecTest, LooksForNoMatches) {
  Bytes raw = numbers(ElementType::unknown, 64 * KiB, 1);
  const Bytes half = raw;
  raw.insert(raw.end(), half.begin(), half.end());
  EXPECT_EQ(stored_share(ElementType::fp8_e5m2, raw), 1.);
}

TEST_F(ExponentCodecTest, TypesHaveNames) {
  EXPECT_EQ(element_type("bf16"), ElementType::bf16);
  EXPECT_EQ(element_type("half"), ElementType::fp16);
  EXPECT_EQ(element_type("fp8"), ElementType::fp8_e4m3);
  EXPECT_EQ(element_type("fp8_e5m2"), ElementType::fp8_e5m2);
  EXPECT_EQ(element_type("q8_0"), ElementType::unknown);
}

}  // namespace
}  // namespace artesian
