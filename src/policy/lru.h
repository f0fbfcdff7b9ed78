// Least recently used: the measure that every other policy is held against.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "policy/eviction.h"

namespace artesian {

class LruPolicy final : public EvictionPolicy {
 public:
  explicit LruPolicy(std::size_t expert_count) : last_use_(expert_count, 0) {}

  void on_use(std::span<const ExpertIndex> experts) override;
  std::optional<std::size_t> victim(std::span<const ExpertIndex> resident, ExpertIndex incoming) override;

 private:
  std::vector<std::uint64_t> last_use_;  // step of the last use, by expert; 0 is never
  std::uint64_t step_ = 0;
};

std::unique_ptr<EvictionPolicy> make_lru(std::size_t expert_count);

}  // namespace artesian
