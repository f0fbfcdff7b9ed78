// Takes elements apart into two planes of a byte per two bytes: `coded` holds the exponents, which are far from evenly
// spread, `rest` sign and mantissa, which cannot be compressed. Pure; input and outputs do not overlap; any alignment.
#pragma once

#include <cstddef>
#include <cstdint>

namespace artesian {

// `count` pairs of bytes each; `raw` has 2 * count bytes, a plane has count.
struct PlaneSplit {
  void (*split)(const std::uint8_t* raw, std::size_t count, std::uint8_t* coded, std::uint8_t* rest);
  void (*merge)(const std::uint8_t* coded, const std::uint8_t* rest, std::size_t count, std::uint8_t* raw);
};

// BF16: 8 bits of exponent; 1 of sign and 7 of mantissa.
extern const PlaneSplit bf16_planes;
// FP16: the byte with sign, exponent and two bits of mantissa; 8 bits of mantissa. Coded together the three bits cost
// what they cost alone, and nothing has to be shifted.
extern const PlaneSplit fp16_planes;
// Two of FP8 E4M3: both exponents of 4 bits; both signs and mantissas.
extern const PlaneSplit e4m3_planes;

}  // namespace artesian
