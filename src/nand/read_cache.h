// Units of the map that a drive keeps in DRAM because they were read, or because the host said that they will be. In
// partitions that each have their share: what one kind of data brings in cannot push out another's. Second chance
// (CLOCK) within a partition. It knows which units are there and holds no bytes.
//
// Not thread safe. A request names its partition; one that is not there is the first.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "nand/profile.h"

namespace artesian::nand {

class ReadCache {
 public:
  explicit ReadCache(const Profile& profile) {
    if (profile.read_cache_bytes == 0) return;
    std::vector<double> shares = profile.read_cache_shares;
    if (shares.empty()) shares.push_back(1);
    const auto units = static_cast<double>(profile.read_cache_bytes / profile.map_unit_bytes);
    for (const double share : shares) {
      const auto slots = static_cast<std::size_t>(share * units + 0.5);
      parts_.push_back({.slots = std::vector<Slot>(slots), .places = {}});
      parts_.back().places.reserve(slots);
    }
  }

  bool any() const { return !parts_.empty(); }

  bool hit(std::uint32_t unit) {
    for (Part& part : parts_) {
      const auto found = part.places.find(unit);
      if (found == part.places.end()) continue;
      part.slots[found->second].referenced = true;
      return true;
    }
    return false;
  }

  void insert(std::uint32_t unit, std::uint32_t partition) {
    if (!any() || hit(unit)) return;
    Part& part = parts_[partition < parts_.size() ? partition : 0];
    if (part.slots.empty()) return;
    while (part.slots[part.hand].unit != none_there && part.slots[part.hand].referenced) {
      part.slots[part.hand].referenced = false;
      part.step();
    }
    Slot& slot = part.slots[part.hand];
    if (slot.unit != none_there) part.places.erase(slot.unit);
    slot = {.unit = unit, .referenced = false};
    part.places[unit] = part.hand;
    part.step();
  }

  // It was written or trimmed.
  void drop(std::uint32_t unit) {
    for (Part& part : parts_) {
      const auto found = part.places.find(unit);
      if (found == part.places.end()) continue;
      part.slots[found->second] = {};
      part.places.erase(found);
      return;
    }
  }

  void clear() {
    for (Part& part : parts_) {
      part.places.clear();
      part.slots.assign(part.slots.size(), {});
    }
  }

 private:
  static constexpr std::uint32_t none_there = ~0U;
  struct Slot {
    std::uint32_t unit = none_there;
    bool referenced = false;
  };
  struct Part {
    std::vector<Slot> slots;
    std::unordered_map<std::uint32_t, std::size_t> places;
    std::size_t hand = 0;
    void step() { hand = hand + 1 == slots.size() ? 0 : hand + 1; }
  };
  std::vector<Part> parts_;
};

}  // namespace artesian::nand
