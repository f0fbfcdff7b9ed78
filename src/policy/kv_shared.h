// What all KV policies of a store share. Pure; not thread safe.
#pragma once

#include "policy/kv_budget.h"
#include "policy/kv_price.h"
#include "policy/kv_reuse.h"

namespace artesian {

struct KvShared {
  KvReuse reuse{KvReuseSettings{}};
  KvBudget budget{KvBudgetSettings{}};
  KvPrice price;
};

}  // namespace artesian
