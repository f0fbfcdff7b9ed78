#include "policy/partition.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace artesian {
namespace {

TEST(Partition, SharesEqualCyclesWhateverTheBytes) {
  const std::vector<ExpertLayer> layers = {{100, 128, 6}, {300, 128, 6}};
  EXPECT_EQ(token_cycle_bytes(layers), 2400U);
  const auto plan = partition_slots(layers, 2 * 2400);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->slots, (std::vector<std::uint32_t>{12, 12}));
  EXPECT_EQ(plan->bytes, 4800U);
}

TEST(Partition, FractionsOfACycleAreHandedOutToTheLastByte) {
  const std::vector<ExpertLayer> layers(5, ExpertLayer{10, 64, 6});
  const auto plan = partition_slots(layers, 247);  // 24 slots
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->slots, (std::vector<std::uint32_t>{5, 5, 5, 5, 4}));
}

TEST(Partition, SurplusOfASmallLayerGoesToTheOthers) {
  const std::vector<ExpertLayer> layers = {{10, 4, 2}, {10, 64, 2}};
  const auto plan = partition_slots(layers, 300);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->slots, (std::vector<std::uint32_t>{4, 26}));
}

TEST(Partition, EverythingFits) {
  const std::vector<ExpertLayer> layers = {{10, 4, 2}, {20, 8, 2}};
  const auto plan = partition_slots(layers, std::numeric_limits<std::uint64_t>::max());
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->slots, (std::vector<std::uint32_t>{4, 8}));
  EXPECT_EQ(plan->bytes, 200U);
}

TEST(Partition, TooSmallSaysWhatIsNeeded) {
  const std::vector<ExpertLayer> layers(2, ExpertLayer{1 << 20, 64, 6});
  const auto plan = partition_slots(layers, 1 << 20, 1);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::rejected);
  EXPECT_NE(plan.error().message.find("2.00 MiB"), std::string::npos) << plan.error().message;
}

TEST(Partition, RefusesImpossibleLayers) {
  for (const ExpertLayer bad :
       {ExpertLayer{0, 8, 2}, ExpertLayer{8, 8, 0}, ExpertLayer{8, 2, 3}, ExpertLayer{1ULL << 61, 64, 2}}) {
    const auto plan = partition_slots(std::vector<ExpertLayer>{bad}, 1000);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code, Code::invalid);
  }
  EXPECT_TRUE(partition_slots({}, 0));
}

TEST(Partition, NeverAboveBudgetAndNothingLeftThatWouldFit) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 2000; ++round) {
    std::vector<ExpertLayer> layers(1 + random() % 12);
    for (ExpertLayer& layer : layers) {
      layer.experts = static_cast<std::uint32_t>(1 + random() % 64);
      layer.used = static_cast<std::uint32_t>(1 + random() % layer.experts);
      layer.expert_bytes = 1 + random() % 1000;
    }
    const std::uint64_t budget = random() % 100'000;
    const auto plan = partition_slots(layers, budget, static_cast<std::uint32_t>(random() % 3));
    if (!plan) {
      EXPECT_EQ(plan.error().code, Code::rejected);
      continue;
    }
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      bytes += plan->slots[i] * layers[i].expert_bytes;
      EXPECT_LE(plan->slots[i], layers[i].experts);
      EXPECT_TRUE(plan->slots[i] == layers[i].experts || plan->bytes + layers[i].expert_bytes > budget);
    }
    EXPECT_EQ(bytes, plan->bytes);
    EXPECT_LE(bytes, budget);
  }
}

}  // namespace
}  // namespace artesian
