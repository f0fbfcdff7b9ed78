#include "stream/plan.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "base/units.h"
#include "policy/partition.h"
#include "policy/pinning.h"

namespace artesian {
namespace {

constexpr std::uint64_t dense_tensor_min = 256 * KiB;  // smaller ones are not worth a read of their own
constexpr std::uint64_t bookkeeping_bytes = 20 * MiB;  // bounce buffers, tables
constexpr std::uint32_t window_slots_min = 4;
constexpr std::uint64_t lookup_bytes = 8 * MiB;  // what the rows of embeddings that are in use take of the page cache

std::uint64_t stride_of(const GgufTensor& tensor) {
  const std::uint64_t slice = tensor.matrix_bytes();
  const std::uint64_t residue = tensor.offset % slab_page;
  return align_up(residue + slice, slab_page) + (slice % slab_page == 0 ? 0 : slab_page);
}

}  // namespace

std::uint64_t padded_bytes(const GgufTensor& tensor) {
  return align_up(tensor.bytes, slab_page) + 2 * slab_page;
}

bool may_stream(const WeightPlan& plan, std::uint64_t padded) {
  return 2 * padded <= plan.ring_bytes;
}

namespace {

bool streams(const GgufTensor& tensor) {
  const GgmlType* type = find_ggml_type(tensor.type);
  return type != nullptr && tensor.bytes > 0;
}

bool is_embedding(const GgufTensor& tensor) {
  return classify(tensor).part == TensorPart::embedding;
}

bool is_dense_candidate(const GgufTensor& tensor, bool tied) {
  const TensorRole role = classify(tensor);
  if (!role.weight || tensor.bytes < dense_tensor_min || tensor.ne[1] < 2 || tensor.ne[2] != 1) return false;
  return role.part == TensorPart::shared_expert || role.part == TensorPart::ffn || role.part == TensorPart::attention ||
         role.part == TensorPart::output || (role.part == TensorPart::embedding && tied);
}

// The order in which llama.cpp's graphs use a layer's matrices; what belongs to no layer comes last.
std::pair<std::uint32_t, std::size_t> dense_use_order(const GgufTensor& tensor) {
  constexpr std::array<std::string_view, 8> order = {"attn_qkv",    "attn_q", "attn_k",   "attn_v",
                                                     "attn_output", "ffn_up", "ffn_gate", "ffn_down"};
  const auto found =
      std::ranges::find_if(order, [&](std::string_view name) { return tensor.name.find(name) != std::string::npos; });
  return {classify(tensor.name).layer.value_or(~0U), static_cast<std::size_t>(found - order.begin())};
}

struct Needs {
  std::uint64_t all = 0, experts = 0, dense = 0;
  std::uint64_t looked_up = 0;  // embeddings of which a token uses a row
};

class Planner {
 public:
  Planner(const GgufModel& model, const PlanOptions& options)
      : model_(model), options_(options), tied_(model.find("output.weight") == nullptr) {}

  Result<WeightPlan> run() {
    collect();
    if (options_.mode == PlanMode::off) return aside("switched off");
    if (options_.mode == PlanMode::automatic && needs_.all + needs_.all / 20 <= options_.budget_bytes) {
      return aside(fmt::format("the model ({}) fits in memory", format_bytes(needs_.all)));
    }
    if (needs_.experts == 0 && needs_.dense == 0) return aside("the model has no weights that can be streamed");
    plan_.active = true;
    const std::uint64_t kept =
        needs_.all - needs_.experts - needs_.looked_up + std::min(needs_.looked_up, lookup_bytes);
    const bool stream_dense = needs_.experts == 0 || kept + least_experts() > options_.budget_bytes;
    if (!stream_dense) plan_.dense.clear();
    collect_kept();
    plan_.engine_bytes = stream_dense ? kept - needs_.dense : kept;
    plan_.least_budget =
        with_bookkeeping(plan_.engine_bytes + least_experts() - bookkeeping() + dense_budget_min(dense_tensors()));
    if (options_.budget_bytes < plan_.least_budget) {
      return fail(Code::rejected, "{}: a budget of {} is too small, the least that works is {}", model_.paths.at(0),
                  format_size(options_.budget_bytes), format_size(plan_.least_budget));
    }
    std::uint64_t left = options_.budget_bytes - plan_.engine_bytes - bookkeeping();
    if (stream_dense) {
      const auto taken = place_dense(left);
      if (!taken) return fail(taken.error());
      left -= *taken;
    }
    if (needs_.experts > 0) {
      if (auto placed = place_experts(left); !placed) return fail(std::move(placed.error()));
    }
    plan_.arena_bytes = cursor_;
    plan_.bookkeeping_bytes = bookkeeping();
    plan_.least_arena_bytes = least_arena();
    return std::move(plan_);
  }

 private:
  Result<WeightPlan> aside(std::string reason) {
    WeightPlan plan;
    plan.reason = std::move(reason);
    plan.engine_bytes = needs_.all;
    return plan;
  }

  // Of this very plan, however little the governor allows: a pinned tensor that the ring cannot pass stays pinned.
  std::uint64_t least_arena() const {
    std::uint64_t bytes = plan_.ring_bytes;
    for (const SlabPlan& slab : plan_.slabs) bytes += slab.stride * slab.window_slots;
    for (const ExpertLayerPlan& layer : plan_.layers) bytes += layer.slot_bytes;
    for (const DensePlanEntry& entry : plan_.dense) {
      const std::uint64_t padded = padded_bytes(model_.tensors[entry.tensor]);
      if (entry.pinned && !may_stream(plan_, padded)) bytes += padded;
    }
    return bytes;
  }

  std::uint64_t bookkeeping() const { return std::min(bookkeeping_bytes, options_.budget_bytes / 8); }
  // The budget that leaves so many bytes beside its bookkeeping.
  static std::uint64_t with_bookkeeping(std::uint64_t bytes) {
    return bytes + std::min(bookkeeping_bytes, bytes / 7 + 1);
  }

  void collect() {
    std::map<std::uint32_t, std::size_t> layer_index;
    for (std::uint32_t i = 0; i < model_.tensors.size(); ++i) {
      const GgufTensor& tensor = model_.tensors[i];
      needs_.all += tensor.bytes;
      if (!streams(tensor)) continue;
      const TensorRole role = classify(tensor);
      if (is_routed_expert(role.part) && role.weight && role.layer && !role.expert && tensor.ne[2] > 1) {
        auto [entry, fresh] = layer_index.try_emplace(*role.layer, plan_.layers.size());
        if (fresh) {
          const auto experts = static_cast<std::uint32_t>(tensor.ne[2]);
          const auto used = static_cast<std::uint32_t>(model_.facts.expert_used_count);
          plan_.layers.push_back({.layer = *role.layer, .experts = experts, .used = std::clamp(used, 1U, experts)});
        }
        ExpertLayerPlan& layer = plan_.layers[entry->second];
        if (tensor.ne[2] != layer.experts) continue;  // left to the engine
        layer.parts.push_back({.tensor = i, .residue = static_cast<std::uint32_t>(tensor.offset % slab_page)});
        layer.slot_bytes += stride_of(tensor);
        needs_.experts += tensor.bytes;
      } else if (is_dense_candidate(tensor, tied_)) {
        plan_.dense.push_back({.tensor = i});
        needs_.dense += tensor.bytes;
      } else if (is_embedding(tensor)) {
        needs_.looked_up += tensor.bytes;
      }
    }
    std::ranges::stable_sort(
        plan_.dense, {}, [this](const DensePlanEntry& entry) { return dense_use_order(model_.tensors[entry.tensor]); });
    std::ranges::sort(plan_.layers, {}, &ExpertLayerPlan::layer);
    for (ExpertLayerPlan& layer : plan_.layers) {
      std::ranges::sort(layer.parts, {}, [this](const ExpertPartPlan& part) { return use_order(part); });
      for (ExpertPartPlan& part : layer.parts) part.slab = slab_for(stride_of(model_.tensors[part.tensor]));
    }
  }

  void collect_kept() {
    std::vector<char> kept(model_.tensors.size(), 1);
    for (const DensePlanEntry& entry : plan_.dense) kept[entry.tensor] = 0;
    for (const ExpertLayerPlan& layer : plan_.layers) {
      for (const ExpertPartPlan& part : layer.parts) kept[part.tensor] = 0;
    }
    for (std::uint32_t i = 0; i < kept.size(); ++i) {
      if (kept[i] != 0 && !(is_embedding(model_.tensors[i]) && !tied_)) plan_.kept.push_back(i);
    }
  }

  // The order in which llama.cpp's graphs use an expert's matrices: gate is the first operand of the activation.
  std::pair<int, std::uint32_t> use_order(const ExpertPartPlan& part) const {
    const TensorPart role = classify(model_.tensors[part.tensor]).part;
    const int rank = role == TensorPart::expert_down ? 2 : role == TensorPart::expert_up ? 1 : 0;
    return {rank, part.tensor};
  }

  std::uint32_t slab_for(std::uint64_t stride) {
    const auto found = std::ranges::find(plan_.slabs, stride, &SlabPlan::stride);
    if (found != plan_.slabs.end()) return static_cast<std::uint32_t>(found - plan_.slabs.begin());
    plan_.slabs.push_back({.stride = stride});
    return static_cast<std::uint32_t>(plan_.slabs.size() - 1);
  }

  std::uint64_t window_bytes(std::uint32_t slots) const {
    std::uint64_t bytes = 0;
    for (const SlabPlan& slab : plan_.slabs) bytes += slab.stride * slots;
    return bytes;
  }

  // One slot a layer and the smallest window.
  std::uint64_t least_experts() const {
    std::uint64_t bytes = window_bytes(window_slots_min) + bookkeeping();
    for (const ExpertLayerPlan& layer : plan_.layers) bytes += layer.slot_bytes;
    return needs_.experts == 0 ? bookkeeping() : bytes;
  }

  // Pinned ones and the ring; returns what they take of `left`.
  Result<std::uint64_t> place_dense(std::uint64_t left) {
    const std::vector<DenseTensor> tensors = dense_tensors();
    const std::uint64_t share = needs_.experts == 0 ? left : std::max(left / 3, dense_budget_min(tensors));
    const auto chosen = plan_dense(tensors, share);
    if (!chosen) return fail(chosen.error());
    for (std::size_t i = 0; i < plan_.dense.size(); ++i) {
      if (!chosen->pinned[i]) continue;
      plan_.dense[i].pinned = true;
      plan_.dense[i].base = cursor_;
      cursor_ += tensors[i].bytes;
    }
    plan_.ring_base = cursor_;
    plan_.ring_bytes = align_down(chosen->ring_bytes, slab_page);
    cursor_ += plan_.ring_bytes;
    return chosen->pinned_bytes + plan_.ring_bytes;
  }

  std::vector<DenseTensor> dense_tensors() const {
    std::vector<DenseTensor> tensors;
    for (const DensePlanEntry& entry : plan_.dense) tensors.push_back({padded_bytes(model_.tensors[entry.tensor])});
    return tensors;
  }

  Status place_experts(std::uint64_t left) {
    std::uint32_t token_slots = 0;
    std::uint64_t slots_least = 0;
    std::vector<ExpertLayer> layers;
    for (const ExpertLayerPlan& layer : plan_.layers) {
      slots_least += layer.slot_bytes;
      token_slots = std::max(token_slots, static_cast<std::uint32_t>(layer.parts.size()) * layer.used);
      layers.push_back({.expert_bytes = layer.slot_bytes, .experts = layer.experts, .used = layer.used});
    }
    // The window holds two tokens' experts, if no slot has them; or those that no slot has of two whole matrices, so
    // that a batch computes one while the other arrives. A sixth of the budget at most.
    const std::uint64_t per_slot = window_bytes(1);
    const auto most = static_cast<std::uint32_t>(std::min(left / 6, left - slots_least) / per_slot);
    std::uint32_t window = std::max(window_slots_min, std::min(most, 2 * token_slots));
    auto partition = partition_slots(layers, left - window_bytes(window), 1);
    if (!partition) return fail(partition.error());
    std::uint32_t absent = 0;
    for (std::size_t i = 0; i < layers.size(); ++i) absent = std::max(absent, layers[i].experts - partition->slots[i]);
    if (const std::uint32_t wider = std::min(most, 2 * absent); wider > window) {
      window = wider;
      partition = partition_slots(layers, left - window_bytes(window), 1);
      if (!partition) return fail(partition.error());
    }
    for (std::size_t i = 0; i < layers.size(); ++i) plan_.layers[i].slots = partition->slots[i];
    for (std::uint32_t slab = 0; slab < plan_.slabs.size(); ++slab) place_slab(slab, window);
    return {};
  }

  void place_slab(std::uint32_t slab, std::uint32_t window) {
    for (ExpertLayerPlan& layer : plan_.layers) {
      for (ExpertPartPlan& part : layer.parts) {
        if (part.slab != slab) continue;
        part.base = cursor_;
        cursor_ += layer.slots * plan_.slabs[slab].stride;
      }
    }
    plan_.slabs[slab].window_slots = window;
    plan_.slabs[slab].window_base = cursor_;
    cursor_ += window * plan_.slabs[slab].stride;
  }

  const GgufModel& model_;
  const PlanOptions& options_;
  const bool tied_;  // the embedding is the output matrix as well
  WeightPlan plan_;
  Needs needs_;
  std::uint64_t cursor_ = 0;
};

}  // namespace

Result<WeightPlan> make_plan(const GgufModel& model, const PlanOptions& options) {
  return Planner(model, options).run();
}

}  // namespace artesian
