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
      gate_(plan.layers.size()) {
  for (const ExpertLayerPlan& layer : plan.layers) {
    Layer state;
    state.slots.resize(layer.slots);
    state.slot_of.assign(layer.experts, none);
    state.loads.assign(layer.parts.size(), std::vector<Load>(layer.slots));
    state.policy = eviction.make(layer.experts);
    layers_.push_back(std::move(state));
  }
  for (const SlabPlan& slab : plan.slabs) windows_.emplace_back(slab.window_slots);
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
  used_.assign(state.slot_of.size(), 0);
  for (const ExpertIndex expert : experts_) used_[expert] = 1;
  if (layer_ == 0) gate_.on_step();
  drop_stale(layer_);
  learn(route);
  settle_guesses(layer_);
  missing_.clear();
  for (const ExpertIndex expert : experts_) {
    const std::uint32_t slot = state.slot_of[expert];
    ++(slot != none && !failed_anywhere(state, slot) ? state.counters.hits : state.counters.misses);
    if (slot == none) {
      missing_.push_back(expert);
    } else if (state.slots[slot].spare) {
      keep_used_spare(layer_, slot);
    }
  }
  // Those that most tokens use get what slots there are.
  std::ranges::stable_sort(missing_, std::greater{}, [this](ExpertIndex expert) { return uses_[expert]; });
  for (const ExpertIndex expert : missing_) admit(layer_, expert);
  for (Slot& slot : state.slots) slot.admitted = false;
  // Reads in the order in which the parts will be needed: this part of all experts first.
  const std::size_t parts = plan_.layers[layer_].parts.size();
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
void ExpertStore::settle_guesses(std::size_t layer) {
  Layer& state = layers_[layer];
  for (std::uint32_t index = 0; index < state.touched; ++index) {
    Slot& slot = state.slots[index];
    if (!slot.guess) continue;
    slot.guess = false;
    const bool arrived = std::ranges::all_of(state.loads, [index](const auto& loads) { return loads[index].ready(); });
    GuessOutcome outcome = GuessOutcome::wasted;
    if (used_[slot.expert] != 0) outcome = arrived ? GuessOutcome::useful : GuessOutcome::late;
    gate_.record(layer, outcome, plan_.layers[layer].slot_bytes);
    for (auto& loads : state.loads) {
      if (outcome == GuessOutcome::late) loader_.promote(loads[index]);
      if (outcome == GuessOutcome::wasted) loader_.drop(loads[index]);
    }
    if (outcome == GuessOutcome::wasted && slot.spare) {  // the first to be read over
      std::erase(state.spares, index);
      state.spares.push_front(index);
    }
  }
}

// A used expert in a spare slot stays for good if it is worth more than another that does not: that one's slot is spare
// now.
void ExpertStore::keep_used_spare(std::size_t layer, std::uint32_t slot) {
  Layer& state = layers_[layer];
  const std::uint32_t instead = victim(state, state.slots[slot].expert);
  std::erase(state.spares, slot);
  if (instead != none) {
    state.slots[slot].spare = false;
    make_spare(state, instead);
  } else {
    state.spares.push_back(slot);
  }
}

// A missing expert gets a slot, its loads marked as yet to come; or none, and goes through the window.
void ExpertStore::admit(std::size_t layer, ExpertIndex expert) {
  const std::uint32_t slot = choose_slot(layer, expert);
  if (slot == none) return;
  place(layer, slot, expert);
  Layer& state = layers_[layer];
  state.slots[slot].admitted = true;
  for (std::size_t part = 0; part < state.loads.size(); ++part) {
    const std::uint32_t ahead = find_window(layer, part, expert);
    if (ahead != none) free_window(plan_.layers[layer].parts[part].slab, ahead);
  }
}

// Whoever was in the slot is no longer there; the new one's bytes have yet to be asked for.
void ExpertStore::place(std::size_t layer, std::uint32_t slot, ExpertIndex expert) {
  Layer& state = layers_[layer];
  if (state.slots[slot].expert != none) {
    state.slot_of[state.slots[slot].expert] = none;
  } else {
    ++state.counters.resident;
  }
  state.slots[slot].expert = expert;
  state.slots[slot].guess = false;
  state.slot_of[expert] = slot;
  for (auto& loads : state.loads) loads[slot] = Load{.pending = 0, .failed = true};
}

// One that nobody is in, new memory if the governor allows it.
std::uint32_t ExpertStore::free_slot(std::size_t layer) {
  Layer& state = layers_[layer];
  for (std::uint32_t slot = 0; slot < state.touched; ++slot) {
    if (state.slots[slot].expert == none && !busy(state, slot)) return slot;
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

std::uint32_t ExpertStore::choose_slot(std::size_t layer, ExpertIndex expert) {
  if (const std::uint32_t slot = free_slot(layer); slot != none) return slot;
  Layer& state = layers_[layer];
  const std::uint32_t evicted = victim(state, expert);
  const std::uint32_t spare = take_spare(state);
  if (spare == none) return evicted;
  if (evicted == none) {
    state.spares.push_back(spare);  // not worth keeping: it stays spare
  } else {
    state.slots[spare].spare = false;
    make_spare(state, evicted);
  }
  return spare;
}

// The spare slot that gives way first, no longer on the list; none if all are in use.
std::uint32_t ExpertStore::take_spare(Layer& layer) {
  for (auto at = layer.spares.begin(); at != layer.spares.end(); ++at) {
    const Slot& slot = layer.slots[*at];
    if (slot.guess || slot.admitted || busy(layer, *at) || (slot.expert != none && used_[slot.expert] != 0)) continue;
    const std::uint32_t index = *at;
    layer.spares.erase(at);
    return index;
  }
  return none;
}

void ExpertStore::make_spare(Layer& layer, std::uint32_t slot) {
  layer.slots[slot].spare = true;
  layer.spares.push_back(slot);
}

std::uint32_t ExpertStore::spares_wanted(std::size_t layer) const {
  return std::min(plan_.layers[layer].used / 2, layers_[layer].touched / 5);
}

void ExpertStore::speculate(std::size_t layer, std::span<const ExpertIndex> experts) {
  Layer& state = layers_[layer];
  if (!gate_.open(layer)) return;
  used_.assign(state.slot_of.size(), 0);
  for (const ExpertIndex expert : experts) used_[expert] = 1;
  for (const ExpertIndex expert : experts) {
    if (state.slot_of[expert] != none) continue;
    if (state.spares.size() < spares_wanted(layer)) {
      if (const std::uint32_t slot = victim(state, expert); slot != none) make_spare(state, slot);
    }
    const std::uint32_t slot = take_spare(state);
    if (slot == none) return;
    state.spares.push_back(slot);
    place(layer, slot, expert);
    state.slots[slot].guess = true;
    for (std::size_t part = 0; part < state.loads.size(); ++part) {
      start(layer, part, expert, slot, state.loads[part][slot], Loader::Urgency::guessed);
    }
  }
}

bool ExpertStore::failed_anywhere(const Layer& layer, std::uint32_t slot) const {
  return std::ranges::any_of(layer.loads, [slot](const auto& loads) { return loads[slot].failed; });
}

bool ExpertStore::busy(const Layer& layer, std::uint32_t slot) const {
  return std::ranges::any_of(layer.loads, [slot](const auto& loads) { return loads[slot].pending > 0; });
}

// The slot that the policy would give to `incoming`: of those that are not spare, not busy and not in use.
std::uint32_t ExpertStore::victim(Layer& layer, ExpertIndex incoming) {
  candidates_.clear();
  for (std::uint32_t slot = 0; slot < layer.touched; ++slot) {
    const Slot& it = layer.slots[slot];
    if (it.expert == none || it.spare || it.admitted || used_[it.expert] != 0 || busy(layer, slot)) continue;
    candidates_.push_back(it.expert);
  }
  if (candidates_.empty()) return none;
  const auto chosen = layer.policy->victim(candidates_, incoming);
  return chosen ? layer.slot_of[candidates_[*chosen]] : none;
}

std::uint32_t ExpertStore::find_window(std::size_t layer, std::size_t part, ExpertIndex expert) const {
  const auto& window = windows_[plan_.layers[layer].parts[part].slab];
  for (std::uint32_t slot = 0; slot < window.size(); ++slot) {
    if (window[slot].expert == expert && window[slot].layer == layer && window[slot].part == part) return slot;
  }
  return none;
}

std::uint32_t ExpertStore::take_window(std::size_t layer, std::size_t part, ExpertIndex expert,
                                       Loader::Urgency urgency) {
  const std::uint32_t slab = plan_.layers[layer].parts[part].slab;
  std::uint32_t slot = idle_window(slab);
  if (slot == none && urgency == Loader::Urgency::needed) slot = steal_window(slab, part);
  if (slot == none) return none;
  WindowSlot& entry = windows_[slab][slot];
  arena_.commit(plan_.slabs[slab].window_base + slot * plan_.slabs[slab].stride, plan_.slabs[slab].stride);
  entry.layer = layer;
  entry.part = part;
  entry.expert = expert;
  start(layer, part, expert, window_index(layer, part, slot), entry.load, urgency);
  return slot;
}

std::uint32_t ExpertStore::idle_window(std::uint32_t slab) const {
  const auto& window = windows_[slab];
  for (std::uint32_t slot = 0; slot < window.size(); ++slot) {
    if (window[slot].expert == none && window[slot].load.pending == 0) return slot;
  }
  return none;
}

// Demand before speculation: what was read ahead for another part or layer gives way, or this part might wait for ever.
std::uint32_t ExpertStore::steal_window(std::uint32_t slab, std::size_t part) const {
  const auto& window = windows_[slab];
  for (std::uint32_t slot = 0; slot < window.size(); ++slot) {
    const bool needed_now = window[slot].layer == layer_ && window[slot].part == part;
    if (!needed_now && window[slot].load.pending == 0) return slot;
  }
  return none;
}

void ExpertStore::free_window(std::uint32_t slab, std::uint32_t slot) {
  windows_[slab][slot].expert = none;
}

// What was read ahead and is not wanted after all, and what failed: it is read anew.
void ExpertStore::drop_stale(std::size_t layer) {
  for (auto& window : windows_) {
    for (WindowSlot& entry : window) {
      const bool wanted = entry.expert != none && entry.layer == layer && used_[entry.expert] != 0;
      if (!wanted || entry.load.failed) entry.expert = none;
    }
  }
}

const Load* ExpertStore::load_of(std::size_t part, std::size_t i) const {
  const ExpertIndex expert = experts_[i];
  const std::uint32_t slot = layers_[layer_].slot_of[expert];
  if (slot != none) return &layers_[layer_].loads[part][slot];
  const std::uint32_t window = find_window(layer_, part, expert);
  return window == none ? nullptr : &windows_[plan_.layers[layer_].parts[part].slab][window].load;
}

bool ExpertStore::request(std::size_t part, std::size_t i) {
  if (load_of(part, i) != nullptr) return true;
  return take_window(layer_, part, experts_[i], Loader::Urgency::needed) != none;
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
  return slot != none ? slot : window_index(layer_, part, find_window(layer_, part, expert));
}

void ExpertStore::release(std::size_t part, std::size_t i) {
  const std::uint32_t window = find_window(layer_, part, experts_[i]);
  if (window != none) free_window(plan_.layers[layer_].parts[part].slab, window);
}

void ExpertStore::read_ahead(std::size_t part) {
  const std::size_t parts = plan_.layers[layer_].parts.size();
  for (std::size_t next = part + 1; next < parts; ++next) {
    for (std::size_t i = 0; i < experts_.size(); ++i) {
      if (load_of(next, i) == nullptr && take_window(layer_, next, experts_[i], Loader::Urgency::expected) == none)
        return;
    }
  }
  if (!many_ || layer_ + 1 >= layers_.size() || part + 1 < parts) return;
  const std::size_t layer = layer_ + 1;
  for (ExpertIndex expert = 0; expert < layers_[layer].slot_of.size(); ++expert) {
    if (layers_[layer].slot_of[expert] != none || find_window(layer, 0, expert) != none) continue;
    if (take_window(layer, 0, expert, Loader::Urgency::expected) == none) return;
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
  if (state.slots[slot].expert != none) {
    state.slot_of[state.slots[slot].expert] = none;
    --state.counters.resident;
  }
  if (state.slots[slot].spare) std::erase(state.spares, slot);
  state.slots[slot] = {};
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
