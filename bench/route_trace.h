// Recorded decisions of a mixture-of-experts router, and synthetic ones.
//
// File format (CSV): header lines "# layer=L expert_bytes=B ..." for each layer and "# model=... n_layer=L n_expert=E
// n_expert_used=K", one line of column names, then turn,phase,step,layer,slot,expert,weight,... in order of steps;
// phase 0 is prefill, 1 is decode. Slots are in falling order of router weight.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "policy/eviction.h"
#include "policy/partition.h"

namespace artesian::bench {

struct RouteTrace {
  std::string name;
  std::vector<ExpertLayer> layers;
  // [layer][decode step * used + slot], steps in order. A layer's step always has exactly `used` distinct experts.
  std::vector<std::vector<ExpertIndex>> decode;
  std::size_t decode_steps = 0;
};

// Reads one file; prefill rows are checked and skipped. Code::corrupt with file and line for anything that is not as
// described above.
Result<RouteTrace> read_route_trace(const std::filesystem::path& file);

// Every step of every layer draws its experts uniformly and independently.
RouteTrace flat_route_trace(std::uint32_t layers, std::uint32_t experts, std::uint32_t used, std::size_t steps,
                            std::uint64_t seed);

}  // namespace artesian::bench
