// Which experts of a layer stay in memory. Facts in, decision out, no I/O, no clock: one instance per layer.
// A new policy is one pair of files, one row in the registry (eviction.cpp), one entry in the conformance suite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace artesian {

using ExpertIndex = std::uint32_t;

// Not thread safe; deterministic.
class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  // The router of this layer chose these experts for one decode step (distinct; several tokens' union in a batch).
  // Called once a step, before victim().
  virtual void on_use(std::span<const ExpertIndex> experts) = 0;

  // `resident` are the experts in memory that the current step does not use (never empty). Which one gives way to
  // `incoming`? An index into `resident`; nothing if `incoming` should be read past the cache and forgotten.
  virtual std::optional<std::size_t> victim(std::span<const ExpertIndex> resident, ExpertIndex incoming) = 0;
};

struct EvictionInfo {
  std::string_view name;     // "lru"
  std::string_view summary;  // one line for --help
  std::unique_ptr<EvictionPolicy> (*make)(std::size_t expert_count);
};

// The registry; the first row is the default.
std::span<const EvictionInfo> eviction_policies();
const EvictionInfo* find_eviction(std::string_view name);

}  // namespace artesian
