// What a decision costs: 128 experts, 8 used a step, half of them resident.
#include "policy/eviction.h"

#include <benchmark/benchmark.h>

#include <numeric>
#include <string>
#include <vector>

namespace artesian {
namespace {

constexpr ExpertIndex experts = 128;

void on_use(benchmark::State& state, const EvictionInfo& info) {
  auto policy = info.make(experts);
  std::vector<ExpertIndex> chosen(8);
  ExpertIndex next = 0;
  for (auto _ : state) {
    for (ExpertIndex& expert : chosen) expert = next++ % experts;
    policy->on_use(chosen);
  }
}

void victim(benchmark::State& state, const EvictionInfo& info) {
  auto policy = info.make(experts);
  for (ExpertIndex expert = 0; expert < experts; ++expert) policy->on_use(std::vector<ExpertIndex>{expert});
  std::vector<ExpertIndex> resident(experts / 2);
  std::iota(resident.begin(), resident.end(), 0U);
  for (auto _ : state) benchmark::DoNotOptimize(policy->victim(resident, experts - 1));
}

const bool registered = [] {
  for (const EvictionInfo& info : eviction_policies()) {
    benchmark::RegisterBenchmark(("on_use/" + std::string(info.name)).c_str(), on_use, info);
    benchmark::RegisterBenchmark(("victim/" + std::string(info.name)).c_str(), victim, info);
  }
  return true;
}();

}  // namespace
}  // namespace artesian
