// The plain admission policies: first-sight, second-sighting, prefix-depth, shared-first (see the registry).
#pragma once

#include "policy/kv_policy.h"
#include "policy/kv_shared.h"

namespace artesian {

std::unique_ptr<KvAdmission> make_kv_first_sight(const KvPolicySettings& settings, KvShared& shared);
std::unique_ptr<KvAdmission> make_kv_second_sighting(const KvPolicySettings& settings, KvShared& shared);
std::unique_ptr<KvAdmission> make_kv_prefix_depth(const KvPolicySettings& settings, KvShared& shared);
std::unique_ptr<KvAdmission> make_kv_shared_first(const KvPolicySettings& settings, KvShared& shared);

}  // namespace artesian
