// Guesses the experts of the next layer: its router applied to what went into this layer's experts. Between the two lie
// one attention and this layer's experts, which change the residual stream by little; the router's input is normalised
// twice, so the weights of both norms are folded into the copy that is kept here (rounded to BF16: a guess needs no
// more). Of eight chosen experts six to seven are guessed on the models that were measured by others (74-89 %).
//
// Pure. Not thread safe: rank() uses a buffer of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "policy/eviction.h"

namespace artesian {

class RouterGuess {
 public:
  // `weights`: one row of `factors.size()` for each expert. `factors`: what each element of the input is to be
  // multiplied with first (this layer's norm against the one before). `bias`: one for each expert, or empty.
  void add_layer(std::size_t layer, std::span<const float> weights, std::span<const float> factors,
                 std::span<const float> bias);

  // Is there a router for that layer whose input is so many floats wide?
  bool knows(std::size_t layer, std::size_t width) const;

  // The `count` experts with the largest products, largest first; valid until the next call. `input` is what went into
  // the experts of the layer before, one token's.
  std::span<const ExpertIndex> rank(std::size_t layer, std::span<const float> input, std::size_t count);

 private:
  struct Layer {
    std::size_t width = 0;
    std::vector<std::uint16_t> weights;  // BF16, rows padded with zeroes to whole lanes
    std::vector<float> bias;
  };

  std::vector<Layer> layers_;
  std::vector<float> input_, score_;
  std::vector<ExpertIndex> order_;
};

}  // namespace artesian
