// Where a unit of the map lies in the flash: arithmetic over a profile's geometry.
//
// A superblock is one block of every plane of every die. It is written in program units: one wordline in all planes of
// a die (its pages times its planes), the next program unit on the next die, channels first. A physical unit address
// (pua) is superblock * units + its place in the superblock; in one-bit mode (pSLC) a superblock has fewer units and
// the same number of program units.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "nand/profile.h"

namespace artesian::nand {

using Time = std::int64_t;  // virtual nanoseconds
constexpr std::uint32_t none = 0xFFFFFFFF;

inline Time from_us(double us) {
  return std::llround(us * 1e3);
}

enum class CellMode : std::uint8_t { native, slc };

struct ModeLayout {
  std::uint32_t bits = 1;
  std::uint32_t pages_per_program = 1;
  std::uint32_t units_per_program = 1;
  std::uint32_t units = 1;        // of a superblock
  std::array<Time, 4> read_ns{};  // by page of the wordline
  Time program_ns = 0, erase_ns = 0;
  double pe_cycles = 1;
};

struct Place {
  std::uint32_t die = 0, lane = 0;
  std::uint32_t page = 0;  // of the program unit: pages of the same number in it are the same page
  Time read_ns = 0;
};

struct Layout {
  explicit Layout(const Profile& p)
      : channels(static_cast<std::uint32_t>(p.channels)),
        dies(static_cast<std::uint32_t>(p.dies())),
        planes(static_cast<std::uint32_t>(p.planes_per_die)),
        lanes(static_cast<std::uint32_t>(p.read_lanes_per_die)),
        planes_per_lane(planes / lanes),
        unit_bytes(static_cast<std::uint32_t>(p.map_unit_bytes)),
        units_per_page(static_cast<std::uint32_t>(p.page_bytes / p.map_unit_bytes)),
        superblocks(static_cast<std::uint32_t>(p.blocks_per_plane)),
        programs(static_cast<std::uint32_t>(p.wordlines_per_block) * dies),
        logical_units(static_cast<std::uint32_t>(p.capacity_bytes / p.map_unit_bytes)) {
    set(native, static_cast<std::uint32_t>(p.bits_per_cell));
    for (std::size_t i = 0; i < p.read_us.size() && i < 4; ++i) native.read_ns[i] = from_us(p.read_us[i]);
    native.program_ns = from_us(p.program_us);
    native.erase_ns = from_us(p.erase_us);
    native.pe_cycles = p.pe_cycles;
    set(slc, 1);
    slc.read_ns[0] = from_us(p.slc_read_us);
    slc.program_ns = from_us(p.slc_program_us);
    slc.erase_ns = from_us(p.slc_erase_us);
    slc.pe_cycles = p.slc_pe_cycles;
  }

  const ModeLayout& mode(CellMode which) const { return which == CellMode::native ? native : slc; }
  std::uint32_t superblock_of(std::uint32_t pua) const { return pua / native.units; }
  std::uint32_t channel_of(std::uint32_t die) const { return die % channels; }
  std::uint64_t physical_units() const { return std::uint64_t{superblocks} * native.units; }

  // The program unit, counted over the whole drive.
  std::uint32_t program_of(std::uint32_t pua, CellMode which) const {
    const std::uint32_t superblock = pua / native.units;
    return superblock * programs + (pua - superblock * native.units) / mode(which).units_per_program;
  }

  Place place_of(std::uint32_t pua, CellMode which) const {
    const ModeLayout& m = mode(which);
    const std::uint32_t in_superblock = pua % native.units;
    const std::uint32_t program = in_superblock / m.units_per_program;
    const std::uint32_t page = (in_superblock - program * m.units_per_program) / units_per_page;
    const std::uint32_t plane = page % planes;
    return {.die = program % dies, .lane = plane / planes_per_lane, .page = page, .read_ns = m.read_ns[page / planes]};
  }

  std::uint32_t channels, dies, planes, lanes, planes_per_lane;
  std::uint32_t unit_bytes, units_per_page;
  std::uint32_t superblocks;
  std::uint32_t programs;  // program units of a superblock
  std::uint32_t logical_units;
  ModeLayout native, slc;

 private:
  void set(ModeLayout& m, std::uint32_t bits) const {
    m.bits = bits;
    m.pages_per_program = planes * bits;
    m.units_per_program = m.pages_per_program * units_per_page;
    m.units = programs * m.units_per_program;
  }
};

}  // namespace artesian::nand
