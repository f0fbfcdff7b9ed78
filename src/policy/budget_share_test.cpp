#include "policy/budget_share.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace artesian {
namespace {

TEST(BudgetShare, OneGetsAllThatIsOfUse) {
  EXPECT_EQ(share_budget(100, std::vector<BudgetClaim>{{10, 80}}), (std::vector<std::uint64_t>{80}));
  EXPECT_EQ(share_budget(50, std::vector<BudgetClaim>{{10, 80}}), (std::vector<std::uint64_t>{50}));
}

TEST(BudgetShare, WhatTheLeastLeaveIsSharedByUse) {
  EXPECT_EQ(share_budget(100, std::vector<BudgetClaim>{{10, 110}, {20, 60}}), (std::vector<std::uint64_t>{60, 40}));
}

TEST(BudgetShare, OneThatCannotGiveWayLeavesTheOthersLess) {
  EXPECT_EQ(share_budget(100, std::vector<BudgetClaim>{{30, 30}, {10, 200}}), (std::vector<std::uint64_t>{30, 70}));
}

TEST(BudgetShare, TheLeastIsGivenEvenBeyondTheBudget) {
  EXPECT_EQ(share_budget(10, std::vector<BudgetClaim>{{10, 20}, {20, 20}}), (std::vector<std::uint64_t>{10, 20}));
}

TEST(BudgetShare, NeverMoreThanTheBudgetNorLessThanTheLeast) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 1000; ++round) {
    std::vector<BudgetClaim> claims(1 + random() % 5);
    std::uint64_t least = 0;
    for (BudgetClaim& claim : claims) {
      claim.least_bytes = random() % (1ULL << 30);
      claim.useful_bytes = claim.least_bytes + random() % (1ULL << 40);
      least += claim.least_bytes;
    }
    const std::uint64_t budget = least + random() % (1ULL << 40);
    const auto shares = share_budget(budget, claims);
    EXPECT_LE(std::accumulate(shares.begin(), shares.end(), std::uint64_t{0}), budget);
    for (std::size_t i = 0; i < claims.size(); ++i) {
      EXPECT_GE(shares[i], claims[i].least_bytes);
      EXPECT_LE(shares[i], claims[i].useful_bytes);
    }
  }
}

}  // namespace
}  // namespace artesian
