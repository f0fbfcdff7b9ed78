#include "stream/experts.h"

#include <algorithm>
#include <functional>

namespace artesian {

ExpertStore::ExpertStore(const GgufModel& model, const WeightPlan& plan, Arena& arena, Loader& loader,
                         const EvictionInfo& eviction, std::function<bool(std::uint64_t bytes)> may_commit)
    : model_(model),
      plan_(plan),
      arena_(arena),
      loader_(loader),
      may_commit_(std::move(may_commit)),
      gate_(plan.layers.size()),
      window_(plan) {
  for (const ExpertLayerPlan& layer : plan.layers) {
    Layer state;
    state.slots.assign(layer.slots, none);
    state.slot_of.assign(layer.experts, none);
    state.loads.assign(layer.parts.size(), std::vector<Load>(layer.slots));
    state.policy = eviction.make(layer.experts);
    layers_.push_back(std::move(state));
  }
}

std::uint64_t ExpertStore::slot_offset(std::size_t layer, std::size_t part, std::uint32_t slot) const {
  return plan_.layers[layer].parts[part].base + slot * stride(layer, part);
}

std::byte* ExpertStore::base(std::size_t layer, std::size_t part) const {
  const ExpertPartPlan& plan = plan_.layers[layer].parts[part];
  return arena_.data() + plan.base + plan.residue;
}

std::uint64_t ExpertStore::stride(std::size_t layer, std::size_t part) const {
  return plan_.slabs[plan_.layers[layer].parts[part].slab].stride;
}

std::uint32_t ExpertStore::window_index(std::size_t layer, std::size_t part, std::uint32_t slot) const {
  const ExpertPartPlan& plan = plan_.layers[layer].parts[part];
  const SlabPlan& slab = plan_.slabs[plan.slab];
  return static_cast<std::uint32_t>((slab.window_base - plan.base) / slab.stride) + slot;
}

void ExpertStore::start(std::size_t layer, std::size_t part, ExpertIndex expert, std::uint32_t index, Load& load,
                        Loader::Urgency urgency) {
  const GgufTensor& tensor = model_.tensors[plan_.layers[layer].parts[part].tensor];
  loader_.start(load,
                {.file = tensor.file,
                 .offset = tensor.offset + expert * tensor.matrix_bytes(),
                 .bytes = tensor.matrix_bytes(),
                 .destination = base(layer, part) + index * stride(layer, part)},
                urgency);
}

std::uint64_t ExpertStore::route(const Route& route) {
  layer_ = route.layer;
  many_ = route.many;
  experts_.assign(route.experts.begin(), route.experts.end());
  Layer& state = layers_[layer_];
  const std::size_t parts = plan_.layers[layer_].parts.size();
  used_.assign(state.slot_of.size(), 0);
  for (const ExpertIndex expert : experts_) used_[expert] = 1;
  if (layer_ == 0) gate_.on_step();
  window_.release_all();
  learn(route);
  settle_guesses();
  missing_.clear();
  for (const ExpertIndex expert : experts_) {
    const std::uint32_t slot = state.slot_of[expert];
    const bool hit = slot != none ? !failed_anywhere(state, slot) : in_window(layer_, expert);
    ++(hit ? state.counters.hits : state.counters.misses);
    if (slot == none && !hit) missing_.push_back(expert);
    for (std::size_t part = 0; part < parts; ++part) window_.hold({layer_, part, expert});
  }
  // Those that most tokens use get what slots there are.
  std::ranges::stable_sort(missing_, std::greater{}, [this](ExpertIndex expert) { return uses_[expert]; });
  for (const ExpertIndex expert : missing_) admit(expert);
  // Reads in the order in which the parts will be needed: this part of all experts first.
  for (std::size_t step = 0; step < parts; ++step) {
    const std::size_t current = (route.part + step) % parts;
    for (const ExpertIndex expert : experts_) {
      const std::uint32_t slot = state.slot_of[expert];
      if (slot == none) continue;
      Load& load = state.loads[current][slot];
      if (load.failed) start(layer_, current, expert, slot, load, Loader::Urgency::needed);
    }
  }
  return ++route_number_;
}

// The policy learns of a batch token by token: what many of its tokens use, the next ones will use, too.
void ExpertStore::learn(const Route& route) {
  uses_.assign(used_.size(), 0);
  for (std::size_t at = 0; at + route.per_token <= route.by_token.size(); at += route.per_token) {
    const auto token = route.by_token.subspan(at, route.per_token);
    layers_[route.layer].policy->on_use(token);
    for (const ExpertIndex expert : token) ++uses_[expert];
  }
}

// The router has chosen: were the guesses right?
void ExpertStore::settle_guesses() {
  Layer& state = layers_[layer_];
  for (const ExpertIndex expert : state.guesses) {
    bool arrived = true;
    for (std::size_t part = 0; part < state.loads.size(); ++part) {
      Load* const load = window_.load({layer_, part, expert});
      arrived = arrived && load != nullptr && load->ready();
      if (load == nullptr) continue;
      if (used_[expert] != 0) {
        loader_.promote(*load);
      } else {
        loader_.drop(*load);
      }
    }
    const GuessOutcome fate = arrived ? GuessOutcome::useful : GuessOutcome::late;
    gate_.record(layer_, used_[expert] != 0 ? fate : GuessOutcome::wasted, plan_.layers[layer_].slot_bytes);
  }
  state.guesses.clear();
}

// A missing expert gets a slot, its loads marked as yet to come; or none, and goes through the window.
void ExpertStore::admit(ExpertIndex expert) {
  Layer& state = layers_[layer_];
  std::uint32_t slot = free_slot(layer_);
  if (slot == none) slot = victim(state, expert);
  if (slot == none) return;
  if (state.slots[slot] != none) {
    state.slot_of[state.slots[slot]] = none;
  } else {
    ++state.counters.resident;
  }
  state.slots[slot] = expert;
  state.slot_of[expert] = slot;
  for (std::size_t part = 0; part < state.loads.size(); ++part) {
    state.loads[part][slot] = Load{.pending = 0, .failed = true};
    window_.forget({layer_, part, expert});
  }
}

// One that nobody is in, new memory if the governor allows it.
std::uint32_t ExpertStore::free_slot(std::size_t layer) {
  Layer& state = layers_[layer];
  for (std::uint32_t slot = 0; slot < state.touched; ++slot) {
    if (state.slots[slot] == none && !busy(state, slot)) return slot;
  }
  if (state.touched == state.slots.size()) return none;
  std::uint64_t cost = 0;
  for (std::size_t part = 0; part < state.loads.size(); ++part) {
    cost += arena_.commit_cost(slot_offset(layer, part, state.touched), stride(layer, part));
  }
  if (cost > 0 && may_commit_ && !may_commit_(cost)) return none;
  for (std::size_t part = 0; part < state.loads.size(); ++part) {
    arena_.commit(slot_offset(layer, part, state.touched), stride(layer, part));
  }
  return state.touched++;
}

void ExpertStore::speculate(std::size_t layer, std::span<const ExpertIndex> experts) {
  Layer& state = layers_[layer];
  if (!gate_.open(layer)) return;
  for (const ExpertIndex expert : experts) {
    if (state.slot_of[expert] != none || in_window(layer, expert)) continue;
    for (std::size_t part = 0; part < state.loads.size(); ++part) {
      const ExpertWindow::Key key{layer, part, expert};
      if (window_.find(key) == none && !read_into_window(key, Loader::Urgency::guessed, false)) return;
    }
    state.guesses.push_back(expert);
  }
}

bool ExpertStore::failed_anywhere(const Layer& layer, std::uint32_t slot) const {
  return std::ranges::any_of(layer.loads, [slot](const auto& loads) { return loads[slot].failed; });
}

bool ExpertStore::busy(const Layer& layer, std::uint32_t slot) const {
  return std::ranges::any_of(layer.loads, [slot](const auto& loads) { return loads[slot].pending > 0; });
}

// The slot that the policy would give to `incoming`: of those that are not busy and not in use.
std::uint32_t ExpertStore::victim(Layer& layer, ExpertIndex incoming) {
  candidates_.clear();
  for (std::uint32_t slot = 0; slot < layer.touched; ++slot) {
    const ExpertIndex resident = layer.slots[slot];
    if (resident != none && used_[resident] == 0 && !busy(layer, slot)) candidates_.push_back(resident);
  }
  if (candidates_.empty()) return none;
  const auto chosen = layer.policy->victim(candidates_, incoming);
  return chosen ? layer.slot_of[candidates_[*chosen]] : none;
}

// All parts there or on their way.
bool ExpertStore::in_window(std::size_t layer, ExpertIndex expert) const {
  for (std::size_t part = 0; part < plan_.layers[layer].parts.size(); ++part) {
    const Load* const load = window_.load({layer, part, expert});
    if (load == nullptr || load->failed) return false;
  }
  return true;
}

// False if there is no room.
bool ExpertStore::read_into_window(const ExpertWindow::Key& key, Loader::Urgency urgency, bool insist) {
  const std::uint32_t slot = insist ? window_.take_or_steal(key) : window_.take(key);
  if (slot == none) return false;
  const SlabPlan& slab = plan_.slabs[plan_.layers[key.layer].parts[key.part].slab];
  arena_.commit(slab.window_base + slot * slab.stride, slab.stride);
  if (urgency != Loader::Urgency::guessed) window_.hold(key);
  start(key.layer, key.part, key.expert, window_index(key.layer, key.part, slot), *window_.load(key), urgency);
  return true;
}

const Load* ExpertStore::load_of(std::size_t part, std::size_t i) const {
  const ExpertIndex expert = experts_[i];
  const std::uint32_t slot = layers_[layer_].slot_of[expert];
  return slot != none ? &layers_[layer_].loads[part][slot] : window_.load({layer_, part, expert});
}

bool ExpertStore::request(std::size_t part, std::size_t i, bool insist) {
  return load_of(part, i) != nullptr || read_into_window({layer_, part, experts_[i]}, Loader::Urgency::needed, insist);
}

bool ExpertStore::ready(std::size_t part, std::size_t i) const {
  const Load* load = load_of(part, i);
  return load != nullptr && load->ready();
}

bool ExpertStore::failed(std::size_t part, std::size_t i) const {
  const Load* load = load_of(part, i);
  return load != nullptr && load->pending == 0 && load->failed;
}

std::uint32_t ExpertStore::index(std::size_t part, std::size_t i) const {
  const ExpertIndex expert = experts_[i];
  const std::uint32_t slot = layers_[layer_].slot_of[expert];
  return slot != none ? slot : window_index(layer_, part, window_.find({layer_, part, expert}));
}

void ExpertStore::release(std::size_t part, std::size_t i) {
  window_.release({layer_, part, experts_[i]});
}

void ExpertStore::read_ahead(std::size_t part) {
  const std::size_t parts = plan_.layers[layer_].parts.size();
  for (std::size_t next = part + 1; next < parts; ++next) {
    for (std::size_t i = 0; i < experts_.size(); ++i) {
      if (load_of(next, i) != nullptr) continue;
      if (!read_into_window({layer_, next, experts_[i]}, Loader::Urgency::expected, false)) return;
    }
  }
  if (!many_ || layer_ + 1 >= layers_.size() || part + 1 < parts) return;
  const std::size_t layer = layer_ + 1;
  for (ExpertIndex expert = 0; expert < layers_[layer].slot_of.size(); ++expert) {
    const ExpertWindow::Key key{layer, 0, expert};
    if (layers_[layer].slot_of[expert] != none || window_.find(key) != none) continue;
    if (!read_into_window(key, Loader::Urgency::expected, false)) return;
  }
}

// The layer whose slots are most, among those whose last slot is not being read into; the number of layers if none is.
std::size_t ExpertStore::layer_to_shrink() const {
  std::size_t most = layers_.size();
  std::uint64_t most_bytes = 0;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    const Layer& state = layers_[layer];
    const std::uint64_t bytes = state.touched * plan_.layers[layer].slot_bytes;
    if (state.touched <= 1 || bytes <= most_bytes || busy(state, state.touched - 1)) continue;
    most = layer;
    most_bytes = bytes;
  }
  return most;
}

// The last slot, since memory goes back by large pages; whoever is there is read again when it is used. Returns what
// became free.
std::uint64_t ExpertStore::give_back_slot(std::size_t layer) {
  Layer& state = layers_[layer];
  const std::uint32_t slot = --state.touched;
  if (state.slots[slot] != none) {
    state.slot_of[state.slots[slot]] = none;
    state.slots[slot] = none;
    --state.counters.resident;
  }
  std::uint64_t freed = 0;
  for (std::size_t part = 0; part < state.loads.size(); ++part) {
    state.loads[part][slot] = Load{};
    freed += arena_.release(slot_offset(layer, part, slot), (state.slots.size() - slot) * stride(layer, part));
  }
  return freed;
}

std::uint64_t ExpertStore::shrink(std::uint64_t bytes) {
  std::uint64_t freed = 0;
  while (freed < bytes) {
    const std::size_t layer = layer_to_shrink();
    if (layer == layers_.size()) break;
    // One layer until something becomes free: a slot of every layer would free no large page of any.
    std::uint64_t now = 0;
    while (now == 0 && layers_[layer].touched > 1 && !busy(layers_[layer], layers_[layer].touched - 1)) {
      now = give_back_slot(layer);
    }
    freed += now;
  }
  return freed;
}

ExpertCounters ExpertStore::counters(std::size_t layer) const {
  return layers_[layer].counters;
}

}  // namespace artesian
