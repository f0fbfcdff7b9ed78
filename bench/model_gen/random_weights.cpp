#include "bench/model_gen/random_weights.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <string_view>

namespace artesian {
namespace {

// How a block type is made from random bytes: quants stay as they come, what lies at scale_at is overwritten.
struct BlockRecipe {
  std::string_view name;
  double quant_deviation;  // of scale factor 1: the deviation of a value when d = 1
  double offset;           // the minimum m (or dmin) in units of d, so that the mean is 0
  std::size_t d_at;        // where d lies in the block
  std::size_t m_at;        // where m lies, or 0 if there is none
};

constexpr double nibble = 4.61;     // deviation of 0..15
constexpr double five_bits = 9.23;  // of 0..31
constexpr double k_scale = 48.0;    // of the 6-bit scales that fill_k_scales writes, 32..63
constexpr BlockRecipe recipes[] = {
    {"Q8_0", 42.0, 0, 0, 0},
    {"Q4_0", nibble, 0, 0, 0},
    {"Q4_1", nibble, -7.5, 0, 2},
    {"Q5_0", five_bits, 0, 0, 0},
    {"Q5_1", five_bits, -15.5, 0, 2},
    {"Q2_K", 12.0 * 1.118, 1.5, 80, 82},
    {"Q3_K", 18.5 * 2.29, 0, 108, 0},
    {"Q4_K", k_scale* nibble, 7.5, 0, 2},
    {"Q5_K", k_scale* five_bits, 15.5, 0, 2},
    {"Q6_K", 96.0 * 18.5, 0, 208, 0},
};

const BlockRecipe* find_recipe(std::string_view name) {
  const auto* found = std::ranges::find(recipes, name, &BlockRecipe::name);
  return found == std::end(recipes) ? nullptr : found;
}

void put_half(std::byte* at, std::uint16_t half) {
  std::memcpy(at, &half, sizeof half);
}

std::uint8_t byte_of(std::uint64_t word, int index) {
  return static_cast<std::uint8_t>(word >> (8 * index));
}

void random_bytes(Random& random, std::span<std::byte> out) {
  while (out.size() >= 8) {
    const std::uint64_t word = random.next();
    std::memcpy(out.data(), &word, 8);
    out = out.subspan(8);
  }
  const std::uint64_t word = random.next();
  if (!out.empty()) std::memcpy(out.data(), &word, out.size());
}

// 256 quantiles of a normal distribution of deviation 42, the quants of Q8_0.
const std::array<std::int8_t, 256>& normal_bytes() {
  static const std::array<std::int8_t, 256> table = [] {
    std::array<std::int8_t, 256> values{};
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float value = 42.0F * normal_quantile((static_cast<double>(i) + 0.5) / 256.0);
      values[i] = static_cast<std::int8_t>(std::clamp(std::lround(value), -127L, 127L));
    }
    return values;
  }();
  return table;
}

// 12 bytes with eight 6-bit scales of 32..63 and the same eight as minimums, so that each sub-block has mean 0.
void put_k_scales(std::byte* at, std::uint64_t word) {
  std::array<unsigned, 8> scale{};
  for (std::size_t j = 0; j < 8; ++j) scale[j] = 32U + static_cast<unsigned>((word >> (5 * j)) & 31U);
  for (std::size_t j = 0; j < 4; ++j) {
    const auto low = static_cast<std::byte>(scale[j] | ((scale[j + 4] >> 4U) << 6U));
    at[j] = low;
    at[j + 4] = low;
    at[j + 8] = static_cast<std::byte>((scale[j + 4] & 15U) | ((scale[j + 4] & 15U) << 4U));
  }
}

}  // namespace

float normal_quantile(double probability) {
  // P. J. Acklam, "An algorithm for computing the inverse normal cumulative distribution function"; error below 1.2e-9.
  constexpr double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                          1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
  constexpr double b[] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02, 6.680131188771972e+01,
                          -1.328068155288572e+01};
  constexpr double c[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                          -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
  constexpr double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00, 3.754408661907416e+00};
  constexpr double low = 0.02425;
  const double p = probability;
  if (p < low || p > 1 - low) {
    const double q = std::sqrt(-2 * std::log(p < low ? p : 1 - p));
    const double value = (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
                         ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
    return static_cast<float>(p < low ? value : -value);
  }
  const double q = p - 0.5;
  const double r = q * q;
  return static_cast<float>((((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
                            (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1));
}

std::uint16_t to_bfloat(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

std::uint16_t to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16U) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude >= 0x477ff000U) return sign | 0x7c00U;  // too large for a finite half
  if (magnitude < 0x38800000U) {                        // subnormal: count units of 2^-24
    const float units = std::bit_cast<float>(magnitude) * 16777216.0F;
    return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(std::lrint(units)));
  }
  const std::uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13U) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13U));
}

bool can_fill(std::uint32_t type) {
  const GgmlType* known = find_ggml_type(type);
  if (known == nullptr) return false;
  return known->name == "F32" || known->name == "F16" || known->name == "BF16" || known->name == "MXFP4" ||
         find_recipe(known->name) != nullptr;
}

WeightFiller::WeightFiller(std::uint32_t type, double standard_deviation, std::uint64_t seed)
    : type_(*find_ggml_type(type)), deviation_(standard_deviation), random_(seed) {
  assert(can_fill(type));
  if (type_.block_bytes != 2) return;
  halves_.resize(65536);
  for (std::size_t i = 0; i < halves_.size(); ++i) {
    const auto value = static_cast<float>(deviation_) * normal_quantile((static_cast<double>(i) + 0.5) / 65536.0);
    halves_[i] = type_.name == "F16" ? to_half(value) : to_bfloat(value);
  }
}

void WeightFiller::fill(std::span<std::byte> out) {
  assert(out.size() % type_.block_bytes == 0);
  if (type_.block_elements == 1) return fill_floats(out);
  fill_blocks(out);
}

void WeightFiller::fill_floats(std::span<std::byte> out) {
  const std::size_t count = out.size() / type_.block_bytes;
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % 4 == 0) word = random_.next();
    const auto pick = static_cast<std::uint16_t>(word);
    word >>= 16U;
    if (type_.block_bytes == 2) {
      std::memcpy(out.data() + 2 * i, &halves_[pick], 2);
    } else {
      const float value = static_cast<float>(deviation_) * normal_quantile((pick + 0.5) / 65536.0);
      std::memcpy(out.data() + 4 * i, &value, 4);
    }
  }
}

void WeightFiller::fill_blocks(std::span<std::byte> out) {
  random_bytes(random_, out);
  const std::string_view name = type_.name;
  const std::size_t bytes = type_.block_bytes;
  if (name == "MXFP4") {
    // Values are 2^(e-127) times one of 0, .5, 1, 1.5, 2, 3, 4, 6 with a sign: root mean square 2.93.
    const long exponent = std::lround(std::log2(deviation_ / 2.93)) + 127;
    const auto e = static_cast<std::uint8_t>(std::clamp(exponent, 1L, 253L));
    for (std::size_t at = 0; at < out.size(); at += bytes) {
      out[at] = static_cast<std::byte>(e - 1U + (static_cast<std::uint8_t>(out[at]) & 1U));
    }
    return;
  }
  const BlockRecipe& recipe = *find_recipe(name);
  // Sixteen sizes of d from .75 to 1.25 of the mean, so that a block given to the wrong place is seen.
  std::array<std::uint16_t, 16> d{};
  std::array<std::uint16_t, 16> m{};
  for (std::size_t i = 0; i < d.size(); ++i) {
    const double size = deviation_ / recipe.quant_deviation * (0.75 + static_cast<double>(i) / 30.0);
    d[i] = to_half(static_cast<float>(size));
    m[i] = to_half(static_cast<float>(size * recipe.offset));
  }
  // Where there is no minimum, a negative d in half of the blocks cancels the mean of quants such as -8..7.
  const unsigned sign = recipe.m_at == 0 ? 0x8000U : 0U;
  const auto& normal = normal_bytes();
  for (std::size_t at = 0; at < out.size(); at += bytes) {
    std::byte* block = out.data() + at;
    const std::uint64_t word = random_.next();
    const std::size_t pick = word & 15U;
    if (name == "Q8_0") {
      for (std::size_t i = 2; i < bytes; ++i)
        block[i] = static_cast<std::byte>(normal[static_cast<std::uint8_t>(block[i])]);
    } else if (name == "Q4_K" || name == "Q5_K") {
      put_k_scales(block + 4, word >> 8U);
    } else if (name == "Q2_K") {
      for (int i = 0; i < 16; ++i) {
        const unsigned scale = 8U + (byte_of(word, 1 + i / 4) >> (i % 4) & 7U);
        block[i] = static_cast<std::byte>(scale | (scale << 4U));
      }
    } else if (name == "Q6_K") {
      for (std::size_t i = 192; i < 208; ++i) {  // |scale| of 64..127
        const auto scale = static_cast<std::int8_t>(64 + (static_cast<std::uint8_t>(block[i]) & 63U));
        const bool negative = (static_cast<std::uint8_t>(block[i]) & 64U) != 0;
        block[i] = static_cast<std::byte>(negative ? -scale : scale);
      }
    }
    put_half(block + recipe.d_at, static_cast<std::uint16_t>(d[pick] ^ ((word & 16U) != 0 ? sign : 0U)));
    if (recipe.m_at != 0) put_half(block + recipe.m_at, m[pick]);
  }
}

}  // namespace artesian
