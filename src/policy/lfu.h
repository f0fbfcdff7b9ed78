// Least frequently used, with decay: each step takes a fixed share off every count, so that an expert which was hot
// once does not stay for ever. Ties go to the least recently used.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "policy/eviction.h"

namespace artesian {

class LfuPolicy final : public EvictionPolicy {
 public:
  explicit LfuPolicy(std::size_t expert_count) : count_(expert_count, 0.0F), last_use_(expert_count, 0) {}

  void on_use(std::span<const ExpertIndex> experts) override;
  std::optional<std::size_t> victim(std::span<const ExpertIndex> resident, ExpertIndex incoming) override;

 private:
  std::vector<float> count_;  // decayed uses, by expert
  std::vector<std::uint64_t> last_use_;
  std::uint64_t step_ = 0;
};

std::unique_ptr<EvictionPolicy> make_lfu(std::size_t expert_count);

}  // namespace artesian
