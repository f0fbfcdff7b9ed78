// How one budget is shared between the models of a process (a draft model beside the main one, say). Pure; safe from
// any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace artesian {

struct BudgetClaim {
  std::uint64_t least_bytes = 0;   // what it takes in any case
  std::uint64_t useful_bytes = 0;  // more is of no use; at least the least
};

// Bytes for each claim, none below its least and none above what is of use: what the least ones leave is handed out in
// proportion to what each could use beyond. Their sum is at most the budget, unless the least ones alone are more.
std::vector<std::uint64_t> share_budget(std::uint64_t budget_bytes, std::span<const BudgetClaim> claims);

}  // namespace artesian
