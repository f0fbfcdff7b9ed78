#include "store/block_policies.h"

#include <map>

namespace artesian {

namespace {

constexpr unsigned state_bits = 56;
static_assert(kv_state_mask == (1ULL << state_bits) - 1);

std::uint64_t word_of(std::uint32_t ns, std::uint64_t state) {
  return (static_cast<std::uint64_t>(ns) + 1) << state_bits | (state & kv_state_mask);
}

}  // namespace

BlockPolicies::BlockPolicies(std::size_t namespaces, std::uint64_t bytes_per_day)
    : shared_{.budget = KvBudget({.bytes_per_day = bytes_per_day})}, namespaces_(namespaces) {}

void BlockPolicies::choose(std::uint32_t ns, const KvChoice& choice) {
  Policies& policies = namespaces_[ns];
  if (policies.choice.admission != choice.admission) policies.admission = choice.admission->make({}, shared_);
  if (policies.choice.eviction != choice.eviction) policies.eviction = choice.eviction->make({}, shared_);
  policies.choice = choice;
}

BlockPolicies::Policies& BlockPolicies::of(std::uint32_t ns) {
  if (namespaces_[ns].admission == nullptr) choose(ns, kv_default_choice());
  return namespaces_[ns];
}

void BlockPolicies::on_prompt(std::uint32_t ns, std::span<const KvFacts> prompt, Nanos now) {
  of(ns).admission->on_prompt(prompt, now);
}

bool BlockPolicies::admit(std::uint32_t ns, const KvFacts& block, Nanos now) {
  return of(ns).admission->admit(block, now);
}

std::uint64_t BlockPolicies::on_put(std::uint32_t ns, const KvFacts& block, Nanos now) {
  return word_of(ns, of(ns).eviction->on_put(block, now));
}

std::uint64_t BlockPolicies::on_hit(std::uint32_t ns, const KvFacts& block, std::uint64_t word, Nanos now) {
  return word_of(ns, of(ns).eviction->on_hit(block, word & kv_state_mask, now));
}

std::uint64_t BlockPolicies::on_outlook(std::uint32_t ns, const KvFacts& block, std::uint64_t word, bool wanted,
                                        Nanos now) {
  return word_of(ns, of(ns).eviction->on_outlook(block, word & kv_state_mask, wanted, now));
}

void BlockPolicies::carry(std::span<const KvFacts> blocks, std::span<std::uint64_t> words, std::uint64_t pages_max,
                          Nanos now, std::vector<bool>& out) {
  out.assign(blocks.size(), false);
  std::map<std::uint64_t, std::vector<std::size_t>> by_namespace;  // a parent is always in its child's
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (words[i] != 0) by_namespace[(words[i] >> state_bits) - 1].push_back(i);
  }
  for (const auto& [ns, places] : by_namespace) {
    std::vector<KvFacts> facts;
    std::vector<std::uint64_t> states;
    std::vector<bool> carried;
    for (const std::size_t i : places) {
      facts.push_back(blocks[i]);
      states.push_back(words[i] & kv_state_mask);
    }
    of(static_cast<std::uint32_t>(ns)).eviction->carry(facts, states, pages_max, now, carried);
    for (std::size_t k = 0; k < places.size(); ++k) {
      if (!carried[k]) continue;
      out[places[k]] = true;
      words[places[k]] = word_of(static_cast<std::uint32_t>(ns), states[k]);
      pages_max -= facts[k].pages;
    }
  }
}

}  // namespace artesian
