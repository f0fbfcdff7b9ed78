#include "policy/router_guess.h"

#include <gtest/gtest.h>

#include <random>

namespace artesian {
namespace {

std::vector<ExpertIndex> list(std::span<const ExpertIndex> experts) {
  return {experts.begin(), experts.end()};
}

TEST(RouterGuess, RanksByProductFactorsAndBias) {
  RouterGuess guess;
  const std::vector<float> weights = {1, 0, 0,   //
                                      0, 1, 0,   //
                                      0, 0, 1};  //
  guess.add_layer(2, weights, std::vector<float>{1, 1, 4}, {});
  EXPECT_EQ(list(guess.rank(2, std::vector<float>{3, 2, 1}, 3)), (std::vector<ExpertIndex>{2, 0, 1}));
  EXPECT_EQ(list(guess.rank(2, std::vector<float>{3, 2, 0.1F}, 2)), (std::vector<ExpertIndex>{0, 1}));
  guess.add_layer(2, weights, std::vector<float>{1, 1, 1}, std::vector<float>{0, 10, 0});
  EXPECT_EQ(list(guess.rank(2, std::vector<float>{3, 2, 1}, 9)), (std::vector<ExpertIndex>{1, 0, 2}));
}

TEST(RouterGuess, KnowsLayersThatWereAddedAtTheirWidth) {
  RouterGuess guess;
  EXPECT_FALSE(guess.knows(0, 3));
  guess.add_layer(1, std::vector<float>(12), std::vector<float>(3), {});
  EXPECT_FALSE(guess.knows(0, 0));
  EXPECT_FALSE(guess.knows(0, 3));
  EXPECT_TRUE(guess.knows(1, 3));
  EXPECT_FALSE(guess.knows(1, 4));
  EXPECT_FALSE(guess.knows(2, 3));
}

TEST(RouterGuess, AgreesWithPlainProductsAtAnyWidth) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const std::size_t width : {1U, 7U, 8U, 9U, 640U}) {
    RouterGuess guess;
    std::vector<float> weights(20 * width), input(width);
    for (float& value : weights) value = normal(random);
    for (float& value : input) value = normal(random);
    guess.add_layer(0, weights, std::vector<float>(width, 1.0F), {});
    std::size_t best = 0;
    double best_product = -1e30;
    for (std::size_t expert = 0; expert < 20; ++expert) {
      double sum = 0;
      for (std::size_t i = 0; i < width; ++i) sum += static_cast<double>(weights[expert * width + i]) * input[i];
      if (sum > best_product) best = expert, best_product = sum;
    }
    const auto ranked = list(guess.rank(0, input, 2));  // rounding may swap neighbours
    EXPECT_TRUE(ranked[0] == best || ranked[1] == best) << width;
  }
}

}  // namespace
}  // namespace artesian
