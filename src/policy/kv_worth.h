// The product's own policy for a shared tier: what is likely to be read again (KvReuse) is written as long as it is
// worth the price of a written byte (KvPrice). The end of a prompt, which no other prompt shares, is not written.
#pragma once

#include "policy/kv_policy.h"
#include "policy/kv_shared.h"

namespace artesian {

std::unique_ptr<KvAdmission> make_kv_worth_admission(const KvPolicySettings& settings, KvShared& shared);
std::unique_ptr<KvEviction> make_kv_worth_eviction(const KvPolicySettings& settings, KvShared& shared);

}  // namespace artesian
