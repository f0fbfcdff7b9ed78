// The product's own policy. An expert's worth is how often the router chose it, plus how lately:
//
//     worth = share of recent steps that used it  +  recency_weight / (steps since its last use + 1)
//
// Whether an expert is resident plays no part, so the history of those that are not (ghosts) is kept for all of them.
// An incoming expert that is worth less than every resident one is read past the cache.
// docs/decisions/0004-residency.md has the alternatives and their figures. A use costs a few operations; victim() is
// one pass over `resident`.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "policy/eviction.h"

namespace artesian {

class ArtesianPolicy final : public EvictionPolicy {
 public:
  explicit ArtesianPolicy(std::size_t expert_count);

  void on_use(std::span<const ExpertIndex> experts) override;
  std::optional<std::size_t> victim(std::span<const ExpertIndex> resident, ExpertIndex incoming) override;

 private:
  float worth(ExpertIndex expert) const;

  // Counts decay lazily: instead of shrinking all of them each step, a step adds a larger increment, and all are scaled
  // down together once that has grown too big for a float.
  std::vector<float> count_;  // uses, in units of increment_
  std::vector<std::int64_t> last_use_;
  std::int64_t step_ = 0;
  float increment_ = 1.0F;
  float steps_ = 0.0F;        // steps seen, decayed alike
  float count_to_share_ = 0;  // 1 / (increment_ * (steps_ + prior))
};

std::unique_ptr<EvictionPolicy> make_artesian(std::size_t expert_count);

}  // namespace artesian
