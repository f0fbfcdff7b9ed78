// The tensors and metadata of each architecture of the generator, as llama.cpp 0.6 asks for them. Inside model_gen
// only.
#pragma once

#include <map>

#include "bench/model_gen/model_gen.h"

namespace artesian {

struct TensorFill {
  bool constant = false;  // every element is `value` (F32 only)
  float value = 0;
  double deviation = 0;  // of random values
};

struct ModelLayout {
  GgufPlan plan;
  std::map<std::string, TensorFill, std::less<>> fills;  // by tensor name
};

// Refuses a spec that cannot be built.
Status check_spec(const ModelSpec& spec);

// Everything but the tokenizer's metadata. `spec` has passed check_spec and has its vocab set.
ModelLayout lay_out(const ModelSpec& spec);

}  // namespace artesian
