// The bytes of a drive that stores data, by physical place: a page that the map leads to wrongly, or that was collected
// wrongly, gives wrong bytes. Pages that a workload generated (generated.h) are kept as their first word and made anew
// when they are read; all others are kept. Not thread safe; owns the bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "nand/generated.h"
#include "nand/layout.h"

namespace artesian::nand {

class Content {
 public:
  explicit Content(const Layout& layout)
      : unit_bytes_(layout.unit_bytes),
        units_(layout.native.grains),
        programs_(layout.programs),
        per_program_(layout.native.grains_per_program),
        chunks_(std::size_t{layout.superblocks} * layout.programs) {}

  // A whole unit of the map.
  void write(std::uint32_t pua, std::span<const std::byte> unit) {
    if (is_generated(unit)) return seed(pua, {first_word(unit), true});
    Chunk& chunk = chunks_[chunk_of(pua)];
    if (chunk.kept.empty()) chunk.kept.resize(per_program_);
    auto& bytes = chunk.kept[place_of(pua)];
    if (!bytes) {
      bytes = std::make_unique<std::byte[]>(unit_bytes_);
      ++kept_units_;
    }
    std::memcpy(bytes.get(), unit.data(), unit_bytes_);
  }

  // From byte `from` of the unit on; zeros where nothing was written.
  void read(std::uint32_t pua, std::size_t from, std::span<std::byte> out) const {
    const Chunk& chunk = chunks_[chunk_of(pua)];
    const std::size_t place = place_of(pua);
    if (!chunk.kept.empty() && chunk.kept[place]) {
      std::memcpy(out.data(), chunk.kept[place].get() + from, out.size());
    } else if (!chunk.seeds.empty() && chunk.seeds[place].there) {
      generate(chunk.seeds[place].word, from, out);
    } else {
      std::ranges::fill(out, std::byte{0});
    }
  }

  void copy(std::uint32_t from, std::uint32_t to) {
    const Chunk& chunk = chunks_[chunk_of(from)];
    const std::size_t place = place_of(from);
    if (!chunk.kept.empty() && chunk.kept[place]) return write(to, {chunk.kept[place].get(), unit_bytes_});
    seed(to, chunk.seeds.empty() ? Seed{} : chunk.seeds[place]);
  }

  void erase(std::uint32_t superblock) {
    const auto first = chunks_.begin() + static_cast<std::ptrdiff_t>(std::size_t{superblock} * programs_);
    std::for_each(first, first + programs_, [this](Chunk& chunk) {
      for (const auto& bytes : chunk.kept) kept_units_ -= bytes ? 1 : 0;
      chunk = {};
    });
  }

  // What is kept as it is.
  std::uint64_t kept_bytes() const { return kept_units_ * unit_bytes_; }

 private:
  struct Seed {
    std::uint64_t word = 0;
    bool there = false;
  };
  // A program unit; of native mode whatever the mode: a one-bit superblock uses only some of its addresses. Both lists
  // are empty until they are needed.
  struct Chunk {
    std::vector<Seed> seeds;
    std::vector<std::unique_ptr<std::byte[]>> kept;
  };

  std::size_t chunk_of(std::uint32_t pua) const {
    return std::size_t{pua / units_} * programs_ + pua % units_ / per_program_;
  }
  std::size_t place_of(std::uint32_t pua) const { return pua % units_ % per_program_; }

  void seed(std::uint32_t pua, const Seed& seed) {
    Chunk& chunk = chunks_[chunk_of(pua)];
    const std::size_t place = place_of(pua);
    if (chunk.seeds.empty()) chunk.seeds.resize(per_program_);
    chunk.seeds[place] = seed;
    if (chunk.kept.empty() || !chunk.kept[place]) return;
    chunk.kept[place].reset();
    --kept_units_;
  }

  std::uint32_t unit_bytes_, units_, programs_, per_program_;
  std::uint64_t kept_units_ = 0;
  std::vector<Chunk> chunks_;
};

}  // namespace artesian::nand
