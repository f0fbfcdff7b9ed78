// Where a unit of the map lies in the flash: arithmetic over a profile's geometry.
//
// A superblock is one block of every plane of every die. It is written in program units: one wordline in all planes of
// a die (its pages times its planes), the next program unit on the next die, channels first. With stripes, so many
// program units are begun together and consecutive pages go to them in turn: what belongs together and is read
// together lies on many dies, however little it is. Flash is counted in grains: units of the map, or the parts of one
// in which a drive that compresses keeps it. A unit never lies in two pages. A physical unit address (pua) is
// superblock * grains + the place of its first grain in the superblock; in one-bit mode (pSLC) a superblock has fewer
// grains and the same number of program units.
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

inline double seconds_of(Time time) {
  return static_cast<double>(time) * 1e-9;
}

enum class CellMode : std::uint8_t { native, slc };

struct ModeLayout {
  std::uint32_t bits = 1;
  std::uint32_t pages_per_program = 1;
  std::uint32_t grains_per_program = 1;
  std::uint32_t grains = 1;       // of a superblock
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
        stripe(static_cast<std::uint32_t>(p.stripe_dies)),
        unit_bytes(static_cast<std::uint32_t>(p.map_unit_bytes)),
        grain_bytes(static_cast<std::uint32_t>(p.grain_bytes())),
        grains_per_unit(unit_bytes / grain_bytes),
        grains_per_page(static_cast<std::uint32_t>(p.page_bytes / p.grain_bytes())),
        entries_per_map_page(static_cast<std::uint32_t>(p.map_unit_bytes / p.map_entry_bytes)),
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
  std::uint32_t superblock_of(std::uint32_t pua) const { return pua / native.grains; }
  std::uint32_t channel_of(std::uint32_t die) const { return die % channels; }
  std::uint64_t physical_grains() const { return std::uint64_t{superblocks} * native.grains; }

  // A grain within its superblock: the program unit and the page of it.
  struct Spot {
    std::uint32_t program = 0, page = 0;
  };
  Spot spot_of(std::uint32_t in_superblock, const ModeLayout& m) const {
    const std::uint32_t group = in_superblock / (stripe * m.grains_per_program);
    const std::uint32_t page = (in_superblock - group * stripe * m.grains_per_program) / grains_per_page;
    return {.program = group * stripe + page % stripe, .page = page / stripe};
  }
  // Whether a program unit begins with this grain; whether it ends.
  bool begins(std::uint32_t in_superblock, const ModeLayout& m) const {
    return in_superblock % grains_per_page == 0 && spot_of(in_superblock, m).page == 0;
  }
  bool ends(std::uint32_t in_superblock, const ModeLayout& m) const {
    return (in_superblock + 1) % grains_per_page == 0 && spot_of(in_superblock, m).page + 1 == m.pages_per_program;
  }

  // The program unit, counted over the whole drive.
  std::uint32_t program_of(std::uint32_t pua, CellMode which) const {
    const std::uint32_t superblock = pua / native.grains;
    return superblock * programs + spot_of(pua - superblock * native.grains, mode(which)).program;
  }

  Place place_of(std::uint32_t pua, CellMode which) const {
    const ModeLayout& m = mode(which);
    const Spot spot = spot_of(pua % native.grains, m);
    const std::uint32_t plane = spot.page % planes;
    return {.die = spot.program % dies,
            .lane = plane / planes_per_lane,
            .page = spot.page,
            .read_ns = m.read_ns[spot.page / planes]};
  }

  std::uint32_t channels, dies, planes, lanes, planes_per_lane;
  std::uint32_t stripe;  // program units begun together
  std::uint32_t unit_bytes, grain_bytes, grains_per_unit, grains_per_page;
  std::uint32_t entries_per_map_page;
  std::uint32_t superblocks;
  std::uint32_t programs;  // program units of a superblock
  std::uint32_t logical_units;
  ModeLayout native, slc;

 private:
  void set(ModeLayout& m, std::uint32_t bits) const {
    m.bits = bits;
    m.pages_per_program = planes * bits;
    m.grains_per_program = m.pages_per_program * grains_per_page;
    m.grains = programs * m.grains_per_program;
  }
};

}  // namespace artesian::nand
