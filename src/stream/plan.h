// What the door takes of a model under a budget, and where each piece will lie. Pure: facts in, plan out.
//
// Routed experts get slots: layer l has `slots` of them, the same number for each part (gate, up, down), and slot s of
// part p is `stride` bytes from slot s-1. Parts of one stride share a slab; each slab ends with a window, slots that
// hold for one node what is read past the cache. Dense weights are pinned, or streamed through a ring in order of use.
// An address in a slab agrees with its file offset modulo 4096, so that direct reads land in place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/gguf_model.h"

namespace artesian {

constexpr std::uint64_t slab_page = 4096;

enum class PlanMode : std::uint8_t { automatic, on, off };

struct PlanOptions {
  PlanMode mode = PlanMode::automatic;
  std::uint64_t budget_bytes = 0;  // for weights wherever they lie: ours and those left to the engine
};

struct ExpertPartPlan {
  std::uint32_t tensor = 0;  // index into the model's tensors
  std::uint32_t slab = 0;
  std::uint64_t base = 0;     // bytes from the start of the arena to slot 0's page
  std::uint32_t residue = 0;  // where a slot's first byte lies in its first page
};

struct ExpertLayerPlan {
  std::uint32_t layer = 0;
  std::uint32_t experts = 0;
  std::uint32_t used = 0;
  std::uint32_t slots = 0;
  std::uint64_t slot_bytes = 0;  // over all parts
  std::vector<ExpertPartPlan> parts;
};

struct SlabPlan {
  std::uint64_t stride = 0;
  std::uint32_t window_slots = 0;
  std::uint64_t window_base = 0;
};

struct DensePlanEntry {
  std::uint32_t tensor = 0;
  bool pinned = false;
  std::uint64_t base = 0;  // of a pinned one, in the arena
};

struct WeightPlan {
  bool active = false;
  std::string reason;  // why not, as a clause
  std::vector<ExpertLayerPlan> layers;
  std::vector<SlabPlan> slabs;
  std::vector<DensePlanEntry> dense;  // in order of use; empty where the engine keeps them
  std::uint64_t ring_base = 0, ring_bytes = 0;
  std::uint64_t arena_bytes = 0;
  std::vector<std::uint32_t> kept;      // tensors left to the engine that every token uses whole
  std::uint64_t engine_bytes = 0;       // what the weights left to the engine take
  std::uint64_t bookkeeping_bytes = 0;  // what tables and bounce buffers take beside arena and engine
  std::uint64_t least_arena_bytes = 0;  // what the arena takes in any case: windows, a slot a layer, the ring
  std::uint64_t least_budget = 0;       // below it the plan is refused
};

// What a whole tensor takes where it may begin anywhere in a page and is read by whole pages.
std::uint64_t padded_bytes(const GgufTensor& tensor);

// Whether the ring takes a tensor of so many padded bytes, with a second one beside it.
bool may_stream(const WeightPlan& plan, std::uint64_t padded);

// Code::rejected when the budget is too small, with the least that works.
Result<WeightPlan> make_plan(const GgufModel& model, const PlanOptions& options);

}  // namespace artesian
