#include "codec/planes.h"

namespace artesian {
namespace {

using Byte = std::uint8_t;

Byte byte(unsigned value) {
  return static_cast<Byte>(value);
}

void split_bf16(const Byte* raw, std::size_t count, Byte* __restrict coded, Byte* __restrict rest) {
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned low = raw[2 * i], high = raw[2 * i + 1];
    coded[i] = byte(high << 1 | low >> 7);
    rest[i] = byte((high & 0x80) | (low & 0x7f));
  }
}

void merge_bf16(const Byte* coded, const Byte* rest, std::size_t count, Byte* __restrict raw) {
  for (std::size_t i = 0; i < count; ++i) {
    raw[2 * i] = byte((rest[i] & 0x7fU) | static_cast<unsigned>(coded[i]) << 7);
    raw[2 * i + 1] = byte((rest[i] & 0x80U) | coded[i] >> 1);
  }
}

void split_fp16(const Byte* raw, std::size_t count, Byte* __restrict coded, Byte* __restrict rest) {
  for (std::size_t i = 0; i < count; ++i) {
    coded[i] = raw[2 * i + 1];
    rest[i] = raw[2 * i];
  }
}

void merge_fp16(const Byte* coded, const Byte* rest, std::size_t count, Byte* __restrict raw) {
  for (std::size_t i = 0; i < count; ++i) {
    raw[2 * i] = rest[i];
    raw[2 * i + 1] = coded[i];
  }
}

// s eeee mmm
void split_e4m3(const Byte* raw, std::size_t count, Byte* __restrict coded, Byte* __restrict rest) {
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned first = raw[2 * i], second = raw[2 * i + 1];
    coded[i] = byte((first >> 3 & 0x0f) | (second << 1 & 0xf0));
    rest[i] = byte((first & 0x07) | (first >> 4 & 0x08) | (second << 4 & 0x70) | (second & 0x80));
  }
}

void merge_e4m3(const Byte* coded, const Byte* rest, std::size_t count, Byte* __restrict raw) {
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned exponents = coded[i], others = rest[i];
    raw[2 * i] = byte((exponents << 3 & 0x78) | (others & 0x07) | (others << 4 & 0x80));
    raw[2 * i + 1] = byte((exponents >> 1 & 0x78) | (others >> 4 & 0x07) | (others & 0x80));
  }
}

}  // namespace

const PlaneSplit bf16_planes{split_bf16, merge_bf16};
const PlaneSplit fp16_planes{split_fp16, merge_fp16};
const PlaneSplit e4m3_planes{split_e4m3, merge_e4m3};

}  // namespace artesian
