#include "policy/pinning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace artesian {
namespace {

std::vector<DenseTensor> random_tensors(std::mt19937_64& random, std::size_t count_max, std::uint64_t bytes_max) {
  std::vector<DenseTensor> tensors(random() % (count_max + 1));
  for (DenseTensor& tensor : tensors) tensor.bytes = 1 + random() % bytes_max;
  return tensors;
}

std::uint64_t largest_streamed(std::span<const DenseTensor> tensors, const std::vector<bool>& pinned) {
  std::uint64_t largest = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!pinned[i]) largest = std::max(largest, tensors[i].bytes);
  }
  return largest;
}

TEST(Pinning, EverythingFits) {
  const std::vector<DenseTensor> tensors = {{10}, {20}, {30}};
  const auto plan = plan_dense(tensors, 60);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->pinned_bytes, 60U);
  EXPECT_EQ(plan->streamed_bytes, 0U);
  EXPECT_EQ(plan->ring_bytes, 0U);
  EXPECT_TRUE(plan_dense({}, 0));
}

TEST(Pinning, OneHugeTensorIsPinnedRatherThanGivenARing) {
  std::vector<DenseTensor> tensors(10, DenseTensor{10});
  tensors.push_back({100});
  const auto plan = plan_dense(tensors, 130, 0);
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->pinned.back());
  EXPECT_EQ(plan->pinned_bytes, 110U);
  EXPECT_EQ(plan->ring_bytes, 20U);
  EXPECT_EQ(plan->streamed_bytes, 90U);
}

TEST(Pinning, PinsAreSpreadEvenly) {
  const std::vector<DenseTensor> tensors(100, DenseTensor{100});
  const auto plan = plan_dense(tensors, 5000 + 200, 0);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->streamed_bytes, 5000U);
  std::int64_t streamed = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    streamed += plan->pinned[i] ? 0 : 100;
    EXPECT_LE(std::abs(streamed - static_cast<std::int64_t>(i + 1) * 50), 100) << i;
  }
}

TEST(Pinning, ReadAheadIsGivenUpBeforeThePlanIs) {
  const std::vector<DenseTensor> tensors(100, DenseTensor{100});
  EXPECT_EQ(dense_budget_min(tensors), 200U);
  const auto tight = plan_dense(tensors, 250, 1000);
  ASSERT_TRUE(tight);
  EXPECT_EQ(tight->ring_bytes + tight->pinned_bytes, 250U);
  const auto roomy = plan_dense(tensors, 5000, 1000);
  ASSERT_TRUE(roomy);
  EXPECT_GE(roomy->ring_bytes, 1200U);
}

TEST(Pinning, TooSmallSaysTheLeast) {
  const std::vector<DenseTensor> tensors(10, DenseTensor{1 << 20});
  const auto plan = plan_dense(tensors, (2 << 20) - 1);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::rejected);
  EXPECT_NE(plan.error().message.find("the least that works is 2.00 MiB"), std::string::npos) << plan.error().message;
  EXPECT_TRUE(plan_dense(tensors, 2 << 20));
}

TEST(Pinning, OverflowIsRefused) {
  const std::vector<DenseTensor> tensors(64, DenseTensor{1ULL << 59});
  const auto plan = plan_dense(tensors, 1000);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::invalid);
}

// All subsets of up to 10 tensors: the plan keeps its promises, and the least budget is exact.
TEST(Pinning, IsWithinOneTensorOfTheBestOfAllChoices) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 400; ++round) {
    const auto tensors = random_tensors(random, 10, round % 2 == 0 ? 5 : 100);
    std::uint64_t total = 0;
    for (const DenseTensor& tensor : tensors) total += tensor.bytes;
    const std::uint64_t budget = random() % (total + 2);
    std::uint64_t best = ~0ULL;
    for (std::uint32_t bits = 0; bits < (1U << tensors.size()); ++bits) {
      std::vector<bool> pinned(tensors.size());
      std::uint64_t kept = 0;
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        pinned[i] = ((bits >> i) & 1U) != 0;
        if (pinned[i]) kept += tensors[i].bytes;
      }
      if (kept + 2 * largest_streamed(tensors, pinned) <= budget) best = std::min(best, total - kept);
    }
    const auto plan = plan_dense(tensors, budget, 0);
    EXPECT_EQ(plan.has_value(), best != ~0ULL);
    EXPECT_EQ(plan.has_value(), budget >= dense_budget_min(tensors));
    if (!plan) continue;
    const std::uint64_t largest = largest_streamed(tensors, plan->pinned);
    EXPECT_LE(plan->streamed_bytes, best + largest);
    EXPECT_LE(plan->pinned_bytes + plan->ring_bytes, budget);
    EXPECT_GE(plan->ring_bytes, 2 * largest);
    EXPECT_EQ(plan->pinned_bytes + plan->streamed_bytes, total);
  }
}

// A model of layers of unequal tensors and one large output: in every stretch of the cycle the stream keeps up with its
// share.
TEST(Pinning, AModelStreamsEvenlyAtEveryBudget) {
  std::vector<DenseTensor> tensors;
  std::uint64_t body = 0;
  for (int layer = 0; layer < 32; ++layer) {
    for (const std::uint64_t bytes : {400U, 100U, 100U, 400U, 1100U, 1100U, 1100U}) {
      tensors.push_back({bytes});
      body += bytes;
    }
  }
  tensors.push_back({13'000});
  for (std::uint64_t budget = 20'000; budget < body + 13'000; budget += 777) {
    const auto plan = plan_dense(tensors, budget, 2000);
    ASSERT_TRUE(plan);
    ASSERT_LE(plan->pinned_bytes + plan->ring_bytes, budget);
    if (!plan->pinned.back()) continue;
    std::int64_t streamed = 0;
    std::int64_t seen = 0;
    for (std::size_t i = 0; i + 1 < tensors.size(); ++i) {
      seen += static_cast<std::int64_t>(tensors[i].bytes);
      streamed += plan->pinned[i] ? 0 : static_cast<std::int64_t>(tensors[i].bytes);
      const double share =
          static_cast<double>(plan->streamed_bytes) * static_cast<double>(seen) / static_cast<double>(body);
      ASSERT_LE(std::abs(static_cast<double>(streamed) - share), 2 * 1100) << budget << " at " << i;
    }
  }
}

}  // namespace
}  // namespace artesian
