// How often units of the map were read or written of late: what tiering between media goes by. Counts are halved each
// time as many accesses have come as a drive has units. Not thread safe.
#pragma once

#include <cstdint>
#include <vector>

namespace artesian::nand {

class Heat {
 public:
  static constexpr std::uint8_t stays = 2;     // in the fast medium
  static constexpr std::uint8_t promotes = 4;  // to it

  // Without units nothing is counted.
  explicit Heat(std::uint32_t units) : counts_(units) {}

  void touch(std::uint32_t unit) {
    if (counts_.empty()) return;
    if (counts_[unit] < 255) ++counts_[unit];
    if (++touched_ < counts_.size()) return;
    touched_ = 0;
    for (std::uint8_t& count : counts_) count = static_cast<std::uint8_t>(count / 2);
  }

  bool any() const { return !counts_.empty(); }
  std::uint8_t of(std::uint32_t unit) const { return unit < counts_.size() ? counts_[unit] : 0; }
  // It stayed once; it has to earn that anew.
  void cool(std::uint32_t unit) { counts_[unit] = static_cast<std::uint8_t>(counts_[unit] / 2); }

 private:
  std::vector<std::uint8_t> counts_;
  std::uint64_t touched_ = 0;
};

}  // namespace artesian::nand
