// Random tensor data in ggml's block formats: values of mean 0 and a given standard deviation, quants random, scales
// sane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "bench/model_gen/random.h"
#include "format/gguf.h"

namespace artesian {

bool can_fill(std::uint32_t type);

// Fills whole blocks of the type (out.size() is a multiple of its block_bytes). At about 1 GB/s on one core.
class WeightFiller {
 public:
  // `type` is one that can_fill().
  WeightFiller(std::uint32_t type, double standard_deviation, std::uint64_t seed);
  void fill(std::span<std::byte> out);

 private:
  void fill_floats(std::span<std::byte> out);
  void fill_blocks(std::span<std::byte> out);

  const GgmlType& type_;
  double deviation_;
  Random random_;
  std::vector<std::uint16_t> halves_;  // F16 and BF16: one of 65536 quantiles of the normal distribution each
};

std::uint16_t to_half(float value);         // IEEE binary16, to nearest even
std::uint16_t to_bfloat(float value);       // to nearest even
float normal_quantile(double probability);  // of the standard normal distribution; Acklam's approximation

}  // namespace artesian
