#include "policy/partition.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/units.h"

namespace artesian {

namespace {

constexpr std::uint64_t bytes_max = 1ULL << 62;

Status check_layers(std::span<const ExpertLayer> layers) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const ExpertLayer& layer = layers[i];
    if (layer.expert_bytes == 0 || layer.used == 0 || layer.used > layer.experts) {
      return fail(Code::invalid, "expert layer {}: {} of {} experts used, {} bytes each: not a routed layer", i,
                  layer.used, layer.experts, layer.expert_bytes);
    }
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(layer.expert_bytes, std::uint64_t{layer.experts}, &bytes) ||
        __builtin_add_overflow(total, bytes, &total) || total > bytes_max) {
      return fail(Code::invalid, "expert layer {}: {} experts of {} bytes each are more than any memory", i,
                  layer.experts, layer.expert_bytes);
    }
  }
  return {};
}

// What every layer would have with `cycles` token cycles.
std::uint32_t slots_for(const ExpertLayer& layer, double cycles, std::uint32_t slots_min) {
  const double wanted = std::floor(cycles * layer.used + 1e-9);
  const auto slots = static_cast<std::uint32_t>(std::min<double>(wanted, layer.experts));
  return std::max(slots, std::min(slots_min, layer.experts));
}

std::uint64_t fill(std::span<const ExpertLayer> layers, double cycles, std::uint32_t slots_min,
                   std::vector<std::uint32_t>& slots) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    slots[i] = slots_for(layers[i], cycles, slots_min);
    bytes += slots[i] * layers[i].expert_bytes;
  }
  return bytes;
}

}  // namespace

std::uint64_t token_cycle_bytes(std::span<const ExpertLayer> layers) {
  std::uint64_t bytes = 0;
  for (const ExpertLayer& layer : layers) bytes += layer.used * layer.expert_bytes;
  return bytes;
}

Result<Partition> partition_slots(std::span<const ExpertLayer> layers, std::uint64_t budget_bytes,
                                  std::uint32_t slots_min) {
  if (auto checked = check_layers(layers); !checked) return fail(checked.error());
  Partition plan;
  plan.slots.resize(layers.size());
  const std::uint64_t least = fill(layers, 0.0, slots_min, plan.slots);
  if (least > budget_bytes) {
    return fail(Code::rejected, "a budget of {} for experts is too small: {} slots in each of {} layers need {}",
                format_size(budget_bytes), slots_min, layers.size(), format_size(least));
  }

  // The most cycles that fit, by bisection; then one slot more here and there for what is left, layers with the fewest
  // cycles first, and the nearest to the input among equals.
  double low = 0.0;
  double high = 0.0;
  for (const ExpertLayer& layer : layers) high = std::max(high, static_cast<double>(layer.experts) / layer.used);
  if (fill(layers, high, slots_min, plan.slots) > budget_bytes) {
    for (int i = 0; i < 60; ++i) {
      const double middle = (low + high) / 2;
      (fill(layers, middle, slots_min, plan.slots) <= budget_bytes ? low : high) = middle;
    }
    high = low;
  }
  plan.bytes = fill(layers, high, slots_min, plan.slots);

  std::vector<std::size_t> order(layers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (bool grown = true; grown;) {
    grown = false;
    std::ranges::stable_sort(order, {},
                             [&](std::size_t i) { return static_cast<double>(plan.slots[i]) / layers[i].used; });
    for (const std::size_t i : order) {
      if (plan.slots[i] >= layers[i].experts || layers[i].expert_bytes > budget_bytes - plan.bytes) continue;
      ++plan.slots[i];
      plan.bytes += layers[i].expert_bytes;
      grown = true;
    }
  }
  return plan;
}

}  // namespace artesian
