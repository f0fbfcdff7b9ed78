#include "policy/lru.h"

namespace artesian {

void LruPolicy::on_use(std::span<const ExpertIndex> experts) {
  ++step_;
  for (const ExpertIndex expert : experts) last_use_[expert] = step_;
}

std::optional<std::size_t> LruPolicy::victim(std::span<const ExpertIndex> resident, ExpertIndex /*incoming*/) {
  std::size_t oldest = 0;
  for (std::size_t i = 1; i < resident.size(); ++i) {
    if (last_use_[resident[i]] < last_use_[resident[oldest]]) oldest = i;
  }
  return oldest;
}

std::unique_ptr<EvictionPolicy> make_lru(std::size_t expert_count) {
  return std::make_unique<LruPolicy>(expert_count);
}

}  // namespace artesian
