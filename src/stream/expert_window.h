// The window of the expert store: slots that all layers share, one set for each slab (parts of one stride). Through it
// goes what the policy does not keep: a batch's passing experts, guesses, what is not worth a slot of its layer. What
// was used stays until its slot is needed, the one last used longest ago first.
//
// Says who lies where; it neither reads nor owns memory. Threads: one caller at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "policy/eviction.h"
#include "stream/loader.h"
#include "stream/plan.h"

namespace artesian {

class ExpertWindow {
 public:
  static constexpr std::uint32_t none = ~0U;

  struct Key {
    std::size_t layer = 0, part = 0;
    ExpertIndex expert = 0;
  };

  explicit ExpertWindow(const WeightPlan& plan);

  // Its slot in the slab, or none.
  std::uint32_t find(const Key& key) const { return slot_of_[key.layer][key.part][key.expert]; }
  const Load* load(const Key& key) const;
  Load* load(const Key& key);

  // Gives it a slot that nobody holds and nothing is read into; whoever was there is forgotten. None if there is no
  // such slot.
  std::uint32_t take(const Key& key);
  // The same, and if there is none the slot of one that is held for something else than this layer's part: demand
  // before what was read ahead, or the part might wait for ever.
  std::uint32_t take_or_steal(const Key& key);
  void forget(const Key& key);

  // Held ones are not given away. What is not there is not held.
  void hold(const Key& key);
  void release(const Key& key);
  // The end of a route: nothing is held, and what failed is forgotten, to be read anew.
  void release_all();

 private:
  struct Slot {
    Key key;
    bool taken = false, held = false;
    std::uint64_t last_use = 0;
    Load load;
  };

  std::vector<Slot>& slab_of(const Key& key);
  const std::vector<Slot>& slab_of(const Key& key) const;
  std::uint32_t give(std::vector<Slot>& slab, std::uint32_t slot, const Key& key);
  void forget(Slot& slot);

  const WeightPlan& plan_;
  std::vector<std::vector<Slot>> slabs_;
  std::vector<std::vector<std::vector<std::uint32_t>>> slot_of_;  // by layer, part, expert
  std::uint64_t uses_ = 0;                                        // the clock of last_use
};

}  // namespace artesian
