// What is not evicted: pins that count and end with the owner, and named ones that are on flash until they are removed.
#include <algorithm>
#include <cassert>
#include <unordered_set>
#include <utility>

#include "store/engine.h"

namespace artesian {

std::uint64_t Engine::pinned_pages_max() const {
  std::uint64_t capacity = 0;
  for (const auto& path : segments_.paths()) capacity += path.superblock.segments * path.superblock.segment_pages();
  return static_cast<std::uint64_t>(static_cast<double>(capacity) * settings_.pinned_share_max);
}

Outcome Engine::pin_one(const KeyHash& key, bool named) {
  const auto entry = index_.find(key);
  if (!entry) return Outcome::miss;
  const auto pinned = pins_.find(key);
  if (pinned == pins_.end() && pinned_pages_ + entry->location.pages > pinned_pages_max()) return Outcome::rejected;
  Pinned& pin = pinned != pins_.end() ? pinned->second : pins_[key];
  if (pinned == pins_.end()) {
    pin.pages = entry->location.pages;
    pinned_pages_ += pin.pages;
  }
  if (named) {
    pin.named = true;
  } else {
    ++pin.count;
  }
  return Outcome::hit;
}

void Engine::drop_if_free(Pins::iterator pinned) {
  if (pinned->second.count > 0 || pinned->second.named) return;
  pinned_pages_ -= pinned->second.pages;
  pins_.erase(pinned);
}

void Engine::unpin_one(const KeyHash& key) {
  const auto pinned = pins_.find(key);
  if (pinned == pins_.end()) return;
  if (pinned->second.count > 0) --pinned->second.count;
  drop_if_free(pinned);
}

// These left one of the slots; they stay named where they are in another.
void Engine::unname(std::span<const KeyHash> keys) {
  std::unordered_set<KeyHash, KeyHashHash> left;
  for (const PinSlot& slot : named_) left.insert(slot.keys.begin(), slot.keys.end());
  for (const KeyHash& key : keys) {
    const auto pinned = pins_.find(key);
    if (pinned == pins_.end()) continue;
    pinned->second.named = left.contains(key);
    drop_if_free(pinned);
  }
}

// Which slots were emptied.
std::set<std::uint32_t> Engine::free_slots(const std::function<bool(const PinSlot&)>& which) {
  std::set<std::uint32_t> freed;
  std::vector<KeyHash> gone;
  for (std::uint32_t i = 0; i < named_.size(); ++i) {
    if (!which(named_[i])) continue;
    const auto keys = std::exchange(named_[i], {.revision = named_[i].revision}).keys;
    gone.insert(gone.end(), keys.begin(), keys.end());
    freed.insert(i);
  }
  unname(gone);
  return freed;
}

void Engine::pin(NamespaceId id, std::span<Probe> items) {
  const Lock lock(mutex_);
  assert(id < namespaces_.size() && namespaces_[id].used);
  for (Probe& item : items) {
    item.outcome = is_key(item.key) ? pin_one(hash(namespaces_[id], item.key), false) : Outcome::invalid;
  }
}

void Engine::unpin(NamespaceId id, std::span<const std::span<const std::byte>> keys) {
  const Lock lock(mutex_);
  assert(id < namespaces_.size() && namespaces_[id].used);
  for (const auto key : keys) {
    if (is_key(key)) unpin_one(hash(namespaces_[id], key));
  }
}

// Those that hold in the present epoch of their namespace, when the index is known.
void Engine::take_pins() {
  for (PinSlot& slot : named_) {
    if (slot.name.empty() || !holds(slot, slot.ns.slot, slot.name)) {
      slot = {.revision = slot.revision};
      continue;
    }
    for (const KeyHash& key : slot.keys) pin_one(key, true);  // what is not there, on a path that is away, stays named
  }
}

bool Engine::holds(const PinSlot& slot, NamespaceId id, std::string_view name) const {
  return slot.name == name && slot.ns.slot == id && slot.ns.epoch == namespaces_[id].slot.epoch;
}

Status Engine::pin_named(NamespaceId id, std::string_view name, std::span<Probe> items) {
  if (name.empty() || name.size() > pin_name_limit) {
    return fail(Code::invalid, "the name of a pin has 1 to {} bytes, this one {}", pin_name_limit, name.size());
  }
  Lock lock(mutex_);
  assert(id < namespaces_.size() && namespaces_[id].used);
  std::set<std::uint32_t> changed;
  std::vector<std::pair<std::uint32_t, KeyHash>> added;
  for (Probe& item : items) {
    item.outcome = Outcome::invalid;
    if (!is_key(item.key)) continue;
    const KeyHash key = hash(namespaces_[id], item.key);
    const auto has = [&](const PinSlot& slot) {
      return holds(slot, id, name) && std::ranges::find(slot.keys, key) != slot.keys.end();
    };
    item.outcome = Outcome::hit;
    if (std::ranges::any_of(named_, has)) continue;
    auto slot = std::ranges::find_if(
        named_, [&](const PinSlot& one) { return holds(one, id, name) && one.keys.size() < pins_a_slot; });
    if (slot == named_.end()) slot = std::ranges::find(named_, "", &PinSlot::name);
    item.outcome = slot == named_.end() ? Outcome::rejected : pin_one(key, true);
    if (item.outcome != Outcome::hit) continue;
    slot->name = name;
    slot->ns = scope_of(id);
    slot->keys.push_back(key);
    changed.insert(static_cast<std::uint32_t>(slot - named_.begin()));
    added.emplace_back(static_cast<std::uint32_t>(slot - named_.begin()), key);
  }
  auto written = write_pins(lock, changed);
  if (written) return written;
  std::vector<KeyHash> gone;
  for (const auto& [slot, key] : added) {
    std::erase(named_[slot].keys, key);
    if (named_[slot].keys.empty()) named_[slot].name.clear();
    gone.push_back(key);
  }
  unname(gone);
  return written;
}

Status Engine::unpin_named(NamespaceId id, std::string_view name) {
  Lock lock(mutex_);
  assert(id < namespaces_.size() && namespaces_[id].used);
  const auto changed = free_slots([&](const PinSlot& slot) { return !name.empty() && holds(slot, id, name); });
  if (changed.empty()) return fail(Code::not_found, "there is no pin with the name '{}'", name);
  return write_pins(lock, changed);
}

std::vector<PinFacts> Engine::named_pins() {
  const Lock lock(mutex_);
  std::vector<PinFacts> all;
  for (const PinSlot& slot : named_) {
    if (slot.name.empty() || !holds(slot, slot.ns.slot, slot.name)) continue;
    const auto same = [&](const PinFacts& facts) { return facts.ns == slot.ns.slot && facts.name == slot.name; };
    auto facts = std::ranges::find_if(all, same);
    if (facts == all.end()) {
      all.push_back({.ns = slot.ns.slot, .name = slot.name});
      facts = all.end() - 1;
    }
    facts->blocks += slot.keys.size();
    for (const KeyHash& key : slot.keys) {
      if (const auto pinned = pins_.find(key); pinned != pins_.end()) facts->bytes += pinned->second.pages * store_page;
    }
  }
  return all;
}

// The pins of a namespace go with it. What is on flash names an epoch that is over, until it is written.
std::set<std::uint32_t> Engine::drop_pins(NamespaceId id) {
  return free_slots([&](const PinSlot& slot) { return !slot.name.empty() && slot.ns.slot == id; });
}

// Durable on every path when it returns well, and with them the blocks.
Status Engine::write_pins(Lock& lock, const std::set<std::uint32_t>& slots) {
  std::vector<TablePage> pages;
  for (const std::uint32_t slot : slots) {
    PinSlot& pins = named_[slot];
    ++pins.revision;
    pages.push_back({.offset = pin_slot_offset(slot, pins.revision % 2), .scope = scope_pins});
    pages.back().encode = [this, slot](std::span<std::byte> page, const Seal* seal) {
      return encode_pin_slot(named_[slot], store_, page, seal);
    };
  }
  return write_table(lock, pages, "the pins");
}

}  // namespace artesian
