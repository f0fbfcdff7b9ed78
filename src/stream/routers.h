// The routers of a model's expert layers, read from its files for guessing (policy/router_guess.h). Layers whose router
// is not there as F32, F16 or BF16 are left out: nothing is guessed for them.
#pragma once

#include "format/gguf_model.h"
#include "policy/router_guess.h"
#include "stream/plan.h"

namespace artesian {

// Layers are numbered as in the plan. Files that cannot be read give no routers; whoever needs their weights will say
// why.
RouterGuess read_routers(const GgufModel& model, const WeightPlan& plan, const OpenSource& open);

}  // namespace artesian
