// The facts behind `artesian inspect`: what a model is made of, what streaming it costs and what budgets should give.
// Pure: a model and a device's bandwidth in, facts out; the plan is the one that the door makes (stream/plan.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/gguf_model.h"

namespace artesian {

struct InspectOptions {
  double bandwidth = 0;                // bytes a second of the device that holds the model; 0: not measured
  std::vector<std::uint64_t> budgets;  // bytes; empty: a few that suit the model
};

// How the experts of some layers lie. Layers that are alike share one row.
struct InspectPart {
  std::string name;               // "expert gate"
  std::string type;               // "Q4_K"
  std::uint64_t slice_bytes = 0;  // of one expert
  std::uint32_t alignment = 0;    // 4096 or 512 where slice_bytes is a multiple of it, else 0
};
struct InspectLayers {
  std::vector<std::uint32_t> layers;
  std::uint64_t experts = 0;
  std::uint64_t expert_bytes = 0;  // of one expert, all parts
  std::vector<InspectPart> parts;
};

struct InspectBudget {
  std::uint64_t budget_bytes = 0;
  bool works = false;    // false: below what the door needs
  bool streams = false;  // false: all of it fits and the door steps aside
  double resident = 0;   // share of the experts (of the streamed dense weights in a dense model) kept in memory
  double hit_rate = 0;   // of expert uses, if all experts are equally likely
  double bytes_per_token = 0;
  double tokens_per_second = 0;  // as the device bounds them; 0: not bounded by it, or bandwidth not given
};

struct InspectReport {
  GgufFacts facts;
  std::vector<std::string> paths;
  std::uint64_t tensors = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t expert_bytes = 0;        // routed experts
  std::uint64_t dense_bytes = 0;         // all else
  std::uint64_t token_bytes = 0;         // read for a token if nothing that can be streamed is resident
  std::uint64_t token_expert_bytes = 0;  // of them, experts
  std::uint64_t budget_min_bytes = 0;    // the smallest that works; 0: nothing can be streamed
  std::uint64_t lru_cliff_bytes = 0;     // below it a global LRU hits nothing
  double bandwidth = 0;
  std::vector<InspectLayers> layers;
  std::vector<InspectBudget> budgets;
  std::vector<std::string> warnings;
};

// `paths` must not be empty (a model from open_model never is).
InspectReport inspect_model(const GgufModel& model, const InspectOptions& options);

std::string to_text(const InspectReport& report);
std::string to_json_text(const InspectReport& report);  // names that are not UTF-8 come with replacement characters

}  // namespace artesian
