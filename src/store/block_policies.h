// The policies of a store's namespaces (policy/kv_policy.h), as the engine asks them. The word that the block index
// keeps for a policy has the namespace in its upper eight bits, so that a segment's blocks can be told apart when it is
// reclaimed; 0: found when the store was opened and not asked for since, nothing is known of it.
//
// Threads: the engine's lock. Times are the engine's clock's.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "policy/kv_policy.h"
#include "policy/kv_shared.h"

namespace artesian {

class BlockPolicies {
 public:
  // `bytes_per_day` 0: no limit.
  BlockPolicies(std::size_t namespaces, std::uint64_t bytes_per_day);

  // Of a namespace from now on; what was learnt stays if they are the ones it has. Until then it has the first row's.
  void choose(std::uint32_t ns, const KvChoice& choice);

  void on_prompt(std::uint32_t ns, std::span<const KvFacts> prompt, Nanos now);
  bool admit(std::uint32_t ns, const KvFacts& block, Nanos now);
  std::uint64_t on_put(std::uint32_t ns, const KvFacts& block, Nanos now);
  std::uint64_t on_hit(std::uint32_t ns, const KvFacts& block, std::uint64_t word, Nanos now);
  std::uint64_t on_outlook(std::uint32_t ns, const KvFacts& block, std::uint64_t word, bool wanted, Nanos now);
  // As KvEviction::carry, for blocks of any namespaces.
  void carry(std::span<const KvFacts> blocks, std::span<std::uint64_t> words, std::uint64_t pages_max, Nanos now,
             std::vector<bool>& out);

  KvBudget& budget() { return shared_.budget; }

 private:
  struct Policies {
    KvChoice choice;
    std::unique_ptr<KvAdmission> admission;
    std::unique_ptr<KvEviction> eviction;
  };
  Policies& of(std::uint32_t ns);

  KvShared shared_;
  std::vector<Policies> namespaces_;
};

}  // namespace artesian
