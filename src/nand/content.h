// The bytes of a drive that stores data, by physical place: a page that the map leads to wrongly, or that was collected
// wrongly, gives wrong bytes. Not thread safe; owns the bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "nand/layout.h"

namespace artesian::nand {

class Content {
 public:
  explicit Content(const Layout& layout)
      : unit_bytes_(layout.unit_bytes),
        units_(layout.native.units),
        programs_(layout.programs),
        per_program_(layout.native.units_per_program),
        chunks_(std::size_t{layout.superblocks} * layout.programs) {}

  std::span<std::byte> write(std::uint32_t pua) {
    auto& chunk = chunks_[chunk_of(pua)];
    if (!chunk) chunk = std::make_unique<std::byte[]>(std::size_t{per_program_} * unit_bytes_);
    return {chunk.get() + std::size_t{pua % units_ % per_program_} * unit_bytes_, unit_bytes_};
  }

  // Empty where nothing was written.
  std::span<const std::byte> read(std::uint32_t pua) const {
    const auto& chunk = chunks_[chunk_of(pua)];
    if (!chunk) return {};
    return {chunk.get() + std::size_t{pua % units_ % per_program_} * unit_bytes_, unit_bytes_};
  }

  void erase(std::uint32_t superblock) {
    const auto first = chunks_.begin() + static_cast<std::ptrdiff_t>(std::size_t{superblock} * programs_);
    std::for_each(first, first + programs_, [](auto& chunk) { chunk.reset(); });
  }

 private:
  // Chunks are of native program units whatever the mode: a one-bit superblock uses only some of its addresses.
  std::size_t chunk_of(std::uint32_t pua) const {
    return std::size_t{pua / units_} * programs_ + pua % units_ / per_program_;
  }

  std::uint32_t unit_bytes_, units_, programs_, per_program_;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
};

}  // namespace artesian::nand
