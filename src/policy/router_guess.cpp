#include "policy/router_guess.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace artesian {
namespace {

constexpr std::size_t lanes = 8;

std::uint16_t to_bf16(float value) {
  return static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(value) + 0x8000U) >> 16);
}

std::size_t padded(std::size_t width) {
  return (width + lanes - 1) / lanes * lanes;
}

// Sums by lane, so that the compiler may use vectors without reordering a sum.
float product(const std::uint16_t* row, const float* input, std::size_t width) {
  float sums[lanes] = {};
  for (std::size_t i = 0; i < width; i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      sums[lane] += std::bit_cast<float>(static_cast<std::uint32_t>(row[i + lane]) << 16) * input[i + lane];
    }
  }
  return std::accumulate(sums, sums + lanes, 0.0F);
}

}  // namespace

void RouterGuess::add_layer(std::size_t layer, std::span<const float> weights, std::span<const float> factors,
                            std::span<const float> bias) {
  if (layers_.size() <= layer) layers_.resize(layer + 1);
  Layer& it = layers_[layer];
  it.width = factors.size();
  const std::size_t experts = weights.size() / it.width, row = padded(it.width);
  it.weights.assign(experts * row, 0);
  for (std::size_t expert = 0; expert < experts; ++expert) {
    for (std::size_t i = 0; i < it.width; ++i) {
      it.weights[expert * row + i] = to_bf16(weights[expert * it.width + i] * factors[i]);
    }
  }
  it.bias.assign(experts, 0.0F);
  std::copy_n(bias.begin(), std::min(bias.size(), experts), it.bias.begin());
}

bool RouterGuess::knows(std::size_t layer, std::size_t width) const {
  return layer < layers_.size() && layers_[layer].width == width && width > 0;
}

std::span<const ExpertIndex> RouterGuess::rank(std::size_t layer, std::span<const float> input, std::size_t count) {
  const Layer& it = layers_[layer];
  const std::size_t row = padded(it.width), experts = it.bias.size();
  input_.assign(row, 0.0F);
  std::ranges::copy(input, input_.begin());
  score_.resize(experts);
  for (std::size_t expert = 0; expert < experts; ++expert) {
    score_[expert] = product(&it.weights[expert * row], input_.data(), row) + it.bias[expert];
  }
  order_.resize(experts);
  std::iota(order_.begin(), order_.end(), ExpertIndex{0});
  count = std::min(count, experts);
  std::ranges::partial_sort(order_, order_.begin() + static_cast<std::ptrdiff_t>(count), [this](auto a, auto b) {
    return score_[a] > score_[b] || (score_[a] == score_[b] && a < b);
  });
  return std::span(order_).first(count);
}

}  // namespace artesian
