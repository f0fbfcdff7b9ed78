#include "stream/expert_window.h"

namespace artesian {

ExpertWindow::ExpertWindow(const WeightPlan& plan) : plan_(plan) {
  for (const SlabPlan& slab : plan.slabs) slabs_.emplace_back(slab.window_slots);
  for (const ExpertLayerPlan& layer : plan.layers) {
    slot_of_.emplace_back(layer.parts.size(), std::vector<std::uint32_t>(layer.experts, none));
  }
}

std::vector<ExpertWindow::Slot>& ExpertWindow::slab_of(const Key& key) {
  return slabs_[plan_.layers[key.layer].parts[key.part].slab];
}

const std::vector<ExpertWindow::Slot>& ExpertWindow::slab_of(const Key& key) const {
  return slabs_[plan_.layers[key.layer].parts[key.part].slab];
}

const Load* ExpertWindow::load(const Key& key) const {
  const std::uint32_t slot = find(key);
  return slot == none ? nullptr : &slab_of(key)[slot].load;
}

Load* ExpertWindow::load(const Key& key) {
  const std::uint32_t slot = find(key);
  return slot == none ? nullptr : &slab_of(key)[slot].load;
}

std::uint32_t ExpertWindow::give(std::vector<Slot>& slab, std::uint32_t slot, const Key& key) {
  forget(slab[slot]);
  slab[slot].key = key;
  slab[slot].taken = true;
  slab[slot].last_use = ++uses_;
  slot_of_[key.layer][key.part][key.expert] = slot;
  return slot;
}

std::uint32_t ExpertWindow::take(const Key& key) {
  std::vector<Slot>& slab = slab_of(key);
  std::uint32_t oldest = none;
  for (std::uint32_t slot = 0; slot < slab.size(); ++slot) {
    if (slab[slot].held || slab[slot].load.pending > 0) continue;
    if (oldest == none || slab[slot].last_use < slab[oldest].last_use) oldest = slot;
  }
  return oldest == none ? none : give(slab, oldest, key);
}

std::uint32_t ExpertWindow::take_or_steal(const Key& key) {
  if (const std::uint32_t slot = take(key); slot != none) return slot;
  std::vector<Slot>& slab = slab_of(key);
  for (std::uint32_t slot = 0; slot < slab.size(); ++slot) {
    const bool needed_now = slab[slot].key.layer == key.layer && slab[slot].key.part == key.part;
    if (!needed_now && slab[slot].load.pending == 0) return give(slab, slot, key);
  }
  return none;
}

void ExpertWindow::forget(Slot& slot) {
  if (slot.taken) slot_of_[slot.key.layer][slot.key.part][slot.key.expert] = none;
  slot.taken = slot.held = false;
  slot.last_use = 0;
}

void ExpertWindow::forget(const Key& key) {
  if (const std::uint32_t slot = find(key); slot != none) forget(slab_of(key)[slot]);
}

void ExpertWindow::hold(const Key& key) {
  const std::uint32_t slot = find(key);
  if (slot == none) return;
  slab_of(key)[slot].held = true;
  slab_of(key)[slot].last_use = ++uses_;
}

void ExpertWindow::release(const Key& key) {
  if (const std::uint32_t slot = find(key); slot != none) slab_of(key)[slot].held = false;
}

void ExpertWindow::release_all() {
  for (std::vector<Slot>& slab : slabs_) {
    for (Slot& slot : slab) {
      slot.held = false;
      if (slot.taken && slot.load.failed) forget(slot);
    }
  }
}

}  // namespace artesian
