#include "stream/experts.h"

#include <algorithm>

namespace artesian {

ExpertStore::ExpertStore(const GgufModel& model, const WeightPlan& plan, Arena& arena, Loader& loader,
                         const EvictionInfo& eviction, std::function<bool(std::uint64_t bytes)> may_commit)
    : model_(model), plan_(plan), arena_(arena), loader_(loader), may_commit_(std::move(may_commit)) {
  for (const ExpertLayerPlan& layer : plan.layers) {
    Layer state;
    state.slots.assign(layer.slots, none);
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
                        IoClass io_class) {
  const GgufTensor& tensor = model_.tensors[plan_.layers[layer].parts[part].tensor];
  loader_.start(load,
                {.file = tensor.file,
                 .offset = tensor.offset + expert * tensor.matrix_bytes(),
                 .bytes = tensor.matrix_bytes(),
                 .destination = base(layer, part) + index * stride(layer, part)},
                io_class);
}

std::uint64_t ExpertStore::route(std::size_t layer, std::span<const ExpertIndex> experts, std::size_t part, bool many) {
  layer_ = layer;
  many_ = many;
  experts_.assign(experts.begin(), experts.end());
  Layer& state = layers_[layer];
  used_.assign(state.slot_of.size(), 0);
  for (const ExpertIndex expert : experts) used_[expert] = 1;
  drop_stale(layer);
  if (!many) state.policy->on_use(experts);
  for (const ExpertIndex expert : experts) {
    if (state.slot_of[expert] != none) {
      ++state.counters.hits;
    } else {
      ++state.counters.misses;
      admit(layer, expert, many);
    }
  }
  // Reads in the order in which the parts will be needed: this part of all experts first.
  const std::size_t parts = plan_.layers[layer].parts.size();
  for (std::size_t step = 0; step < parts; ++step) {
    const std::size_t current = (part + step) % parts;
    for (const ExpertIndex expert : experts) {
      const std::uint32_t slot = state.slot_of[expert];
      if (slot == none) continue;
      Load& load = state.loads[current][slot];
      if (load.failed) start(layer, current, expert, slot, load, IoClass::demand);
    }
  }
  return ++route_number_;
}

// A missing expert gets a slot, its loads marked as yet to come; or none, and goes through the window.
void ExpertStore::admit(std::size_t layer, ExpertIndex expert, bool many) {
  const std::uint32_t slot = choose_slot(layer, expert, many);
  if (slot == none) return;
  Layer& state = layers_[layer];
  if (state.slots[slot] != none) {
    state.slot_of[state.slots[slot]] = none;
  } else {
    ++state.counters.resident;
  }
  state.slots[slot] = expert;
  state.slot_of[expert] = slot;
  for (std::size_t part = 0; part < state.loads.size(); ++part) {
    state.loads[part][slot] = Load{.pending = 0, .failed = true};  // not there; route() starts it
    const std::uint32_t ahead = find_window(layer, part, expert);
    if (ahead != none) free_window(plan_.layers[layer].parts[part].slab, ahead);
  }
}

std::uint32_t ExpertStore::choose_slot(std::size_t layer, ExpertIndex expert, bool many) {
  Layer& state = layers_[layer];
  for (std::uint32_t slot = 0; slot < state.touched; ++slot) {
    if (state.slots[slot] == none && !busy(state, slot)) return slot;
  }
  if (state.touched < state.slots.size()) {
    std::uint64_t cost = 0;
    for (std::size_t part = 0; part < state.loads.size(); ++part) {
      cost += arena_.commit_cost(slot_offset(layer, part, state.touched), stride(layer, part));
    }
    if (cost == 0 || !may_commit_ || may_commit_(cost)) {
      for (std::size_t part = 0; part < state.loads.size(); ++part) {
        arena_.commit(slot_offset(layer, part, state.touched), stride(layer, part));
      }
      return state.touched++;
    }
  }
  return many ? none : evict(state, expert);
}

bool ExpertStore::busy(const Layer& layer, std::uint32_t slot) const {
  return std::ranges::any_of(layer.loads, [slot](const auto& loads) { return loads[slot].pending > 0; });
}

std::uint32_t ExpertStore::evict(Layer& layer, ExpertIndex expert) {
  candidates_.clear();
  for (std::uint32_t slot = 0; slot < layer.touched; ++slot) {
    const ExpertIndex resident = layer.slots[slot];
    if (resident != none && used_[resident] == 0 && !busy(layer, slot)) candidates_.push_back(resident);
  }
  if (candidates_.empty()) return none;
  const auto victim = layer.policy->victim(candidates_, expert);
  return victim ? layer.slot_of[candidates_[*victim]] : none;
}

std::uint32_t ExpertStore::find_window(std::size_t layer, std::size_t part, ExpertIndex expert) const {
  const auto& window = windows_[plan_.layers[layer].parts[part].slab];
  for (std::uint32_t slot = 0; slot < window.size(); ++slot) {
    if (window[slot].expert == expert && window[slot].layer == layer && window[slot].part == part) return slot;
  }
  return none;
}

std::uint32_t ExpertStore::take_window(std::size_t layer, std::size_t part, ExpertIndex expert, IoClass io_class) {
  const std::uint32_t slab = plan_.layers[layer].parts[part].slab;
  std::uint32_t slot = idle_window(slab);
  if (slot == none && io_class == IoClass::demand) slot = steal_window(slab, part);
  if (slot == none) return none;
  WindowSlot& entry = windows_[slab][slot];
  arena_.commit(plan_.slabs[slab].window_base + slot * plan_.slabs[slab].stride, plan_.slabs[slab].stride);
  entry.layer = layer;
  entry.part = part;
  entry.expert = expert;
  start(layer, part, expert, window_index(layer, part, slot), entry.load, io_class);
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
  return take_window(layer_, part, experts_[i], IoClass::demand) != none;
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
      if (load_of(next, i) == nullptr && take_window(layer_, next, experts_[i], IoClass::staged) == none) return;
    }
  }
  if (!many_ || layer_ + 1 >= layers_.size() || part + 1 < parts) return;
  const std::size_t layer = layer_ + 1;
  for (ExpertIndex expert = 0; expert < layers_[layer].slot_of.size(); ++expert) {
    if (layers_[layer].slot_of[expert] != none || find_window(layer, 0, expert) != none) continue;
    if (take_window(layer, 0, expert, IoClass::staged) == none) return;
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
