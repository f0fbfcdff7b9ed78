#include "stream/inspect.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/units.h"
#include "stream/plan.h"

namespace artesian {
namespace {

constexpr std::uint64_t budget_step = 16 * MiB;  // budgets are given and searched in steps of this

std::uint32_t alignment_of(const GgufTensor& tensor) {
  for (std::uint32_t alignment : {4096U, 512U}) {
    if (tensor.matrix_bytes() % alignment == 0) return alignment;
  }
  return 0;
}

std::string_view type_of(const GgufTensor& tensor) {
  const GgmlType* type = find_ggml_type(tensor.type);
  return type == nullptr ? "unknown" : type->name;
}

Result<WeightPlan> plan_for(const GgufModel& model, PlanMode mode, std::uint64_t budget) {
  PlanOptions options;
  options.mode = mode;
  options.budget_bytes = budget;
  return make_plan(model, options);
}

// What one token reads of the experts if none is resident.
std::uint64_t used_expert_bytes(const GgufModel& model, const ExpertLayerPlan& layer) {
  std::uint64_t bytes = 0;
  for (const ExpertPartPlan& part : layer.parts) bytes += layer.used * model.tensors[part.tensor].matrix_bytes();
  return bytes;
}

class Inspector {
 public:
  Inspector(const GgufModel& model, const InspectOptions& options) : model_(model), options_(options) {}

  InspectReport run() {
    report_.facts = model_.facts;
    report_.paths = model_.paths;
    report_.tensors = model_.tensors.size();
    report_.bandwidth = options_.bandwidth;
    count_bytes();
    group_layers();
    report_.budget_min_bytes = least_budget();
    count_token_bytes();
    for (std::uint64_t budget : options_.budgets.empty() ? usual_budgets() : options_.budgets) {
      report_.budgets.push_back(expect(budget));
    }
    warn();
    return std::move(report_);
  }

 private:
  void count_bytes() {
    for (const GgufTensor& tensor : model_.tensors) {
      report_.total_bytes += tensor.bytes;
      if (is_routed_expert(classify(tensor).part)) report_.expert_bytes += tensor.bytes;
    }
    report_.dense_bytes = report_.total_bytes - report_.expert_bytes;
  }

  void group_layers() {
    std::map<std::uint32_t, InspectLayers> by_layer;
    for (const GgufTensor& tensor : model_.tensors) {
      const TensorRole role = classify(tensor);
      if (!is_routed_expert(role.part)) continue;
      InspectLayers& layer = by_layer[*role.layer];
      layer.experts = std::max<std::uint64_t>(layer.experts, role.expert ? *role.expert + 1ULL : tensor.ne[2]);
      if (role.expert && *role.expert > 0) continue;  // a tensor per expert: the first stands for all
      layer.expert_bytes += tensor.matrix_bytes();
      layer.parts.push_back({std::string(part_name(role.part)), std::string(type_of(tensor)), tensor.matrix_bytes(),
                             alignment_of(tensor)});
    }
    for (auto& [number, layer] : by_layer) {
      std::ranges::sort(layer.parts, {}, &InspectPart::name);
      const auto like =
          std::ranges::find_if(report_.layers, [&](const InspectLayers& other) { return alike(layer, other); });
      if (like != report_.layers.end()) {
        like->layers.push_back(number);
        continue;
      }
      layer.layers = {number};
      report_.layers.push_back(std::move(layer));
    }
  }

  static bool alike(const InspectLayers& a, const InspectLayers& b) {
    return a.experts == b.experts && a.expert_bytes == b.expert_bytes &&
           std::ranges::equal(a.parts, b.parts, [](const InspectPart& x, const InspectPart& y) {
             return x.name == y.name && x.type == y.type && x.alignment == y.alignment;
           });
  }

  bool works(std::uint64_t budget) const {
    const auto plan = plan_for(model_, PlanMode::on, budget);
    return plan && plan->active;
  }

  // The plan's own least budget depends a little on the budget, so the smallest that it accepts is searched for.
  std::uint64_t least_budget() const {
    std::uint64_t high = align_up(2 * report_.total_bytes + 64 * MiB, MiB);
    if (!works(high)) return 0;
    std::uint64_t low = 0;
    while (high - low > MiB) {
      const std::uint64_t middle = align_down(low + (high - low) / 2, MiB);
      (works(middle) ? high : low) = middle;
    }
    return high;
  }

  void count_token_bytes() {
    if (report_.budget_min_bytes == 0) return;
    const auto plan = plan_for(model_, PlanMode::on, report_.budget_min_bytes);
    if (!plan) return;
    std::uint64_t experts = 0;
    for (const ExpertLayerPlan& layer : plan->layers) experts += used_expert_bytes(model_, layer);
    std::uint64_t dense = 0;
    for (const DensePlanEntry& entry : plan->dense) dense += model_.tensors[entry.tensor].bytes;
    report_.token_expert_bytes = experts;
    report_.token_bytes = experts + dense;
    // A cycle of the experts beside all the rest; a dense model is one cycle.
    report_.lru_cliff_bytes = plan->layers.empty() ? report_.total_bytes : report_.dense_bytes + experts;
  }

  std::vector<std::uint64_t> usual_budgets() const {
    std::vector<std::uint64_t> budgets;
    if (report_.budget_min_bytes != 0) budgets.push_back(report_.budget_min_bytes);
    const bool dense = report_.expert_bytes == 0;
    for (std::uint64_t quarter : {1U, 2U, 3U}) {
      const std::uint64_t part = (dense ? report_.total_bytes : report_.expert_bytes) / 4 * quarter;
      budgets.push_back(align_up(part + (dense ? 0 : report_.dense_bytes), budget_step));
    }
    budgets.push_back(align_up(report_.total_bytes + report_.total_bytes / 16, budget_step));
    std::ranges::sort(budgets);
    const auto repeated = std::ranges::unique(budgets);
    budgets.erase(repeated.begin(), repeated.end());
    return budgets;
  }

  InspectBudget expect(std::uint64_t budget) const {
    InspectBudget row;
    row.budget_bytes = budget;
    const auto plan = plan_for(model_, PlanMode::automatic, budget);
    if (!plan) return row;
    // Not active and not all of it fits: nothing of this model can be streamed.
    row.works = plan->active || budget >= report_.total_bytes;
    row.streams = plan->active;
    if (!plan->active) {
      row.resident = row.works ? 1 : 0;
      row.hit_rate = row.resident;
      return row;
    }
    double read = 0, used = 0, kept = 0, all = 0;
    for (const ExpertLayerPlan& layer : plan->layers) {
      const double share = std::min(1.0, static_cast<double>(layer.slots) / layer.experts);
      const auto bytes = static_cast<double>(used_expert_bytes(model_, layer));
      read += bytes * (1 - share);
      used += bytes;
      kept += share * layer.experts;
      all += layer.experts;
    }
    row.hit_rate = used > 0 ? 1 - read / used : 0;
    row.resident = all > 0 ? kept / all : 0;
    double pinned = 0, dense = 0;
    if (!plan->dense.empty()) {
      for (const DensePlanEntry& entry : plan->dense) {
        const auto bytes = static_cast<double>(model_.tensors[entry.tensor].bytes);
        dense += bytes;
        if (entry.pinned) pinned += bytes;
      }
      read += dense - pinned;
      if (all == 0 && dense > 0) row.hit_rate = row.resident = pinned / dense;
    }
    row.bytes_per_token = read;
    row.tokens_per_second = read > 0 ? options_.bandwidth / read : 0;
    return row;
  }

  void warn() {
    auto& out = report_.warnings;
    if (report_.budget_min_bytes == 0)
      out.push_back("nothing of this model can be streamed; the engine needs memory for all of it");
    warn_of_slices();
    warn_of_types();
    if (report_.expert_bytes > 0 && report_.facts.expert_used_count == 0) {
      out.push_back("the file does not say how many experts are used for a token; 1 is assumed");
    }
    const GgufTensor* embedding = model_.find("token_embd.weight");
    if (embedding != nullptr && model_.find("output.weight") == nullptr) {
      out.push_back(fmt::format("the output matrix is the embedding ({}), which stays in memory",
                                format_bytes(embedding->bytes)));
    }
    if (report_.expert_bytes == 0 && report_.budget_min_bytes != 0) {
      out.push_back(
          "a dense model reads all that is not pinned for every token; only more memory or a faster device helps");
    }
    const bool slow = options_.bandwidth > 0 && static_cast<double>(report_.token_bytes) > options_.bandwidth;
    if (slow) out.push_back("with nothing resident a token takes more than a second of the device's time");
  }

  void warn_of_slices() {
    std::uint64_t crooked = 0, single = 0;
    for (const GgufTensor& tensor : model_.tensors) {
      const TensorRole role = classify(tensor);
      if (!is_routed_expert(role.part)) continue;
      if (role.expert || tensor.ne[2] < 2) {
        ++single;
      } else if (tensor.matrix_bytes() % 512 != 0) {
        ++crooked;
      }
    }
    if (crooked > 0) {
      report_.warnings.push_back(fmt::format(
          "{} expert tensors have slices that are not multiples of 512 bytes: direct reads go through a copy",
          crooked));
    }
    if (single > 0) {
      report_.warnings.push_back(
          fmt::format("{} tensors hold one expert each, as old files have it: they are left to the engine; "
                      "convert the model anew to stream them",
                      single));
    }
  }

  void warn_of_types() {
    std::set<std::string_view> repacked;
    for (const GgufTensor& tensor : model_.tensors) {
      const std::string_view name = type_of(tensor);
      if (name == "Q4_0" || name == "Q4_K" || name == "IQ4_NL" || name == "MXFP4") repacked.insert(name);
    }
    if (repacked.empty()) return;
    report_.warnings.push_back(
        fmt::format("the engine repacks {} on some processors, which rounds differently: compare with --no-repack, "
                    "as the door runs it",
                    fmt::join(repacked, ", ")));
  }

  const GgufModel& model_;
  const InspectOptions& options_;
  InspectReport report_;
};

}  // namespace

InspectReport inspect_model(const GgufModel& model, const InspectOptions& options) {
  return Inspector(model, options).run();
}

}  // namespace artesian
