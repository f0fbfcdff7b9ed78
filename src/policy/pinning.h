// Dense weights larger than memory are a cyclic scan: every token uses all of them in the same order. The best one can
// do is to keep a fixed part and stream the rest through a ring, and to mix the two evenly along the cycle, so that the
// device always has something to read while compute is busy with what is pinned. Pure; safe from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace artesian {

struct DenseTensor {
  std::uint64_t bytes = 0;  // what it takes in memory, padding included
};

struct DensePlan {
  std::vector<bool> pinned;  // by tensor
  std::uint64_t pinned_bytes = 0;
  std::uint64_t streamed_bytes = 0;  // read per token
  std::uint64_t ring_bytes =
      0;  // at least twice the largest streamed tensor: one in use, one arriving; 0 if all is pinned
};

// Beyond the two tensors, so that several reads are in flight; given up when the budget does not allow it.
constexpr std::uint64_t dense_read_ahead_bytes = 16ULL << 20;

// The least budget that plan_dense accepts; 0 for no tensors.
std::uint64_t dense_budget_min(std::span<const DenseTensor> tensors);

// `tensors` in order of use. pinned_bytes + ring_bytes never exceed the budget, and no choice of tensors to pin streams
// less by more than one tensor. Code::rejected with the least budget when it is too small, Code::invalid for sizes that
// overflow.
Result<DensePlan> plan_dense(std::span<const DenseTensor> tensors, std::uint64_t budget_bytes,
                             std::uint64_t read_ahead_bytes = dense_read_ahead_bytes);

}  // namespace artesian
