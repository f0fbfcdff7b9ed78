#include "policy/pinning.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/units.h"

namespace artesian {

namespace {

constexpr std::uint64_t bytes_max = 1ULL << 60;

// A choice of the largest tensor that is streamed: all larger ones must be pinned, and the ring must hold two of its
// size.
struct Shape {
  std::uint64_t streamed_max = 0;
  std::uint64_t forced_bytes = 0;  // of the larger ones
};

// One for each size that occurs, largest first, and one that streams nothing.
std::vector<Shape> shapes_of(std::span<const DenseTensor> tensors) {
  std::vector<std::uint64_t> sizes;
  for (const DenseTensor& tensor : tensors) sizes.push_back(tensor.bytes);
  std::ranges::sort(sizes, std::greater{});
  std::vector<Shape> shapes;
  std::uint64_t larger = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (i == 0 || sizes[i] != sizes[i - 1]) shapes.push_back({sizes[i], larger});
    larger += sizes[i];
  }
  shapes.push_back({0, larger});
  return shapes;
}

std::uint64_t ring_of(const Shape& shape, std::uint64_t read_ahead) {
  return shape.streamed_max == 0 ? 0 : 2 * shape.streamed_max + read_ahead;
}

// Pins `room` bytes of the tensors that need not be pinned, evenly along the cycle, and then whatever still fits.
DensePlan fill(std::span<const DenseTensor> tensors, const Shape& shape, std::uint64_t room) {
  DensePlan plan;
  plan.pinned.resize(tensors.size());
  const std::uint64_t total =
      std::accumulate(tensors.begin(), tensors.end(), std::uint64_t{0},
                      [](std::uint64_t sum, const DenseTensor& tensor) { return sum + tensor.bytes; });
  const std::uint64_t free_bytes = total - shape.forced_bytes;
  const double share =
      free_bytes == 0 ? 0.0 : std::min(1.0, static_cast<double>(room) / static_cast<double>(free_bytes));
  double due = 0;
  std::uint64_t taken = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t bytes = tensors[i].bytes;
    if (bytes > shape.streamed_max) {
      plan.pinned[i] = true;
      plan.pinned_bytes += bytes;
      continue;
    }
    due += share * static_cast<double>(bytes);
    if (bytes > room - taken || due < static_cast<double>(bytes) / 2) continue;
    plan.pinned[i] = true;
    taken += bytes;
    due -= static_cast<double>(bytes);
  }

  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t i) { return tensors[i].bytes; });
  for (const std::size_t i : order) {
    if (plan.pinned[i] || tensors[i].bytes > room - taken) continue;
    plan.pinned[i] = true;
    taken += tensors[i].bytes;
  }
  plan.pinned_bytes += taken;
  plan.streamed_bytes = total - plan.pinned_bytes;
  return plan;
}

Status check_sizes(std::span<const DenseTensor> tensors) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].bytes > bytes_max || (total += tensors[i].bytes) > bytes_max) {
      return fail(Code::invalid, "dense tensor {}: {} bytes, the sum is more than any memory", i, tensors[i].bytes);
    }
  }
  return {};
}

}  // namespace

std::uint64_t dense_budget_min(std::span<const DenseTensor> tensors) {
  std::uint64_t least = ~std::uint64_t{0};
  for (const Shape& shape : shapes_of(tensors)) least = std::min(least, shape.forced_bytes + ring_of(shape, 0));
  return least;
}

Result<DensePlan> plan_dense(std::span<const DenseTensor> tensors, std::uint64_t budget_bytes,
                             std::uint64_t read_ahead_bytes) {
  if (auto checked = check_sizes(tensors); !checked) return fail(checked.error());
  const std::vector<Shape> shapes = shapes_of(tensors);
  read_ahead_bytes = std::min(read_ahead_bytes, bytes_max);
  for (const std::uint64_t ahead : {read_ahead_bytes, std::uint64_t{0}}) {
    // What each shape would leave to stream, before the trouble of choosing tensors: the least wins, the larger ring
    // among equals.
    std::optional<DensePlan> best;
    for (const Shape& shape : shapes) {
      const std::uint64_t needed = shape.forced_bytes + ring_of(shape, ahead);
      if (needed > budget_bytes) continue;
      DensePlan plan = fill(tensors, shape, budget_bytes - needed);
      if (!best || plan.streamed_bytes < best->streamed_bytes) best = std::move(plan);
    }
    if (!best) continue;
    // What no tensor fits into any more makes the ring longer, up to all that is streamed.
    best->ring_bytes = budget_bytes - best->pinned_bytes;
    std::uint64_t largest = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (!best->pinned[i]) largest = std::max(largest, tensors[i].bytes);
    }
    best->ring_bytes = std::min(best->ring_bytes, std::max(best->streamed_bytes, 2 * largest));
    return std::move(*best);
  }
  return fail(Code::rejected, "a budget of {} for dense weights is too small: the least that works is {}",
              format_size(budget_bytes), format_size(dense_budget_min(tensors)));
}

}  // namespace artesian
