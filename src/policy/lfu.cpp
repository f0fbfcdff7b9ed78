#include "policy/lfu.h"

namespace artesian {

namespace {
constexpr float keep_per_step = 0.995F;  // half of a count is gone after about 140 steps
}

void LfuPolicy::on_use(std::span<const ExpertIndex> experts) {
  ++step_;
  for (float& count : count_) count *= keep_per_step;
  for (const ExpertIndex expert : experts) {
    count_[expert] += 1.0F;
    last_use_[expert] = step_;
  }
}

std::optional<std::size_t> LfuPolicy::victim(std::span<const ExpertIndex> resident, ExpertIndex /*incoming*/) {
  std::size_t least = 0;
  for (std::size_t i = 1; i < resident.size(); ++i) {
    const ExpertIndex a = resident[i];
    const ExpertIndex b = resident[least];
    if (count_[a] < count_[b] || (count_[a] == count_[b] && last_use_[a] < last_use_[b])) least = i;
  }
  return least;
}

std::unique_ptr<EvictionPolicy> make_lfu(std::size_t expert_count) {
  return std::make_unique<LfuPolicy>(expert_count);
}

}  // namespace artesian
