#include "policy/artesian_policy.h"

namespace artesian {

namespace {
// Found on recorded routes of two models; figures move by a point or two when any of them is halved or doubled.
constexpr float keep_per_step = 0.995F;   // half of a count is gone after about 140 steps
constexpr float recency_weight = 0.2F;    // an expert of this very step is worth as much as one used in 20 % of steps
constexpr float prior_steps = 10.0F;      // until so many steps are seen, recency leads
constexpr float increment_limit = 1e12F;  // counts are scaled down beyond it
constexpr std::int64_t never = -(1LL << 40);
}  // namespace

ArtesianPolicy::ArtesianPolicy(std::size_t expert_count) : count_(expert_count, 0.0F), last_use_(expert_count, never) {}

void ArtesianPolicy::on_use(std::span<const ExpertIndex> experts) {
  ++step_;
  increment_ /= keep_per_step;
  if (increment_ > increment_limit) {
    for (float& count : count_) count /= increment_;
    increment_ = 1.0F;
  }
  steps_ = steps_ * keep_per_step + 1.0F;
  count_to_share_ = 1.0F / (increment_ * (steps_ + prior_steps));
  for (const ExpertIndex expert : experts) {
    count_[expert] += increment_;
    last_use_[expert] = step_;
  }
}

float ArtesianPolicy::worth(ExpertIndex expert) const {
  const auto age = static_cast<float>(step_ - last_use_[expert]);
  return count_[expert] * count_to_share_ + recency_weight / (age + 1.0F);
}

std::optional<std::size_t> ArtesianPolicy::victim(std::span<const ExpertIndex> resident, ExpertIndex incoming) {
  std::size_t least = 0;
  float least_worth = worth(resident[0]);
  for (std::size_t i = 1; i < resident.size(); ++i) {
    const float candidate = worth(resident[i]);
    if (candidate < least_worth) {
      least = i;
      least_worth = candidate;
    }
  }
  if (worth(incoming) < least_worth) return std::nullopt;
  return least;
}

std::unique_ptr<EvictionPolicy> make_artesian(std::size_t expert_count) {
  return std::make_unique<ArtesianPolicy>(expert_count);
}

}  // namespace artesian
