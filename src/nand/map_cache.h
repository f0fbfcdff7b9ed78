// Which pages of the map a drive with little DRAM holds. Second chance (CLOCK); a page evicted dirty must be written.
// Not thread safe.
#pragma once

#include <cstdint>
#include <vector>

namespace artesian::nand {

class MapCache {
 public:
  struct Touched {
    bool hit = true;
    bool evicted_dirty = false;
    std::uint32_t evicted = 0;  // valid when evicted_dirty
  };

  // `slots` pages of `pages` are held; 0 slots: all of them, every touch is a hit.
  MapCache(std::uint32_t pages, std::uint32_t slots)
      : state_(slots == 0 ? 0 : pages), slots_(slots), held_(slots, ~0U) {}

  bool whole() const { return slots_ == 0; }

  Touched touch(std::uint32_t page, bool dirty) {
    if (whole()) return {};
    std::uint8_t& state = state_[page];
    Touched touched{.hit = (state & resident) != 0};
    if (!touched.hit) touched = evict_for(page);
    state = static_cast<std::uint8_t>(state | resident | referenced | (dirty ? modified : 0));
    return touched;
  }

 private:
  static constexpr std::uint8_t resident = 1, referenced = 2, modified = 4;

  Touched evict_for(std::uint32_t page) {
    Touched touched{.hit = false};
    while (true) {
      std::uint32_t& slot = held_[hand_];
      hand_ = hand_ + 1 == slots_ ? 0 : hand_ + 1;
      if (slot != ~0U && (state_[slot] & referenced) != 0) {
        state_[slot] = static_cast<std::uint8_t>(state_[slot] & ~referenced);
        continue;
      }
      if (slot != ~0U) {
        touched.evicted_dirty = (state_[slot] & modified) != 0;
        touched.evicted = slot;
        state_[slot] = 0;
      }
      slot = page;
      return touched;
    }
  }

  std::vector<std::uint8_t> state_;  // by page
  std::uint32_t slots_, hand_ = 0;
  std::vector<std::uint32_t> held_;
};

}  // namespace artesian::nand
