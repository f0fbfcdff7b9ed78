#include "policy/eviction.h"

#include "policy/artesian_policy.h"
#include "policy/lfu.h"
#include "policy/lru.h"

namespace artesian {

namespace {
constexpr EvictionInfo policies[] = {
    {"artesian", "frequency and recency weighed, may refuse an expert", make_artesian},
    {"lfu", "least frequently used, counts decay", make_lfu},
    {"lru", "least recently used", make_lru},
};
}

std::span<const EvictionInfo> eviction_policies() {
  return policies;
}

const EvictionInfo* find_eviction(std::string_view name) {
  for (const EvictionInfo& policy : policies) {
    if (policy.name == name) return &policy;
  }
  return nullptr;
}

}  // namespace artesian
