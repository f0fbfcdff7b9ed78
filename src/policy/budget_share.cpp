#include "policy/budget_share.h"

#include <algorithm>

namespace artesian {

std::vector<std::uint64_t> share_budget(std::uint64_t budget_bytes, std::span<const BudgetClaim> claims) {
  std::uint64_t least = 0, beyond = 0;
  for (const BudgetClaim& claim : claims) {
    least += claim.least_bytes;
    beyond += claim.useful_bytes - claim.least_bytes;
  }
  const std::uint64_t left = budget_bytes - std::min(budget_bytes, least);
  const double part = beyond <= left ? 1.0 : static_cast<double>(left) / static_cast<double>(beyond);
  std::vector<std::uint64_t> shares;
  for (const BudgetClaim& claim : claims) {
    const std::uint64_t more = claim.useful_bytes - claim.least_bytes;
    shares.push_back(claim.least_bytes +
                     (part < 1.0 ? static_cast<std::uint64_t>(part * static_cast<double>(more)) : more));
  }
  return shares;
}

}  // namespace artesian
