// A drive of four dies that the room's tests run: one bit a cell, everything in round numbers, fast to fill.
#pragma once

#include "nand/profile.h"

namespace artesian::nand {

inline Profile tiny() {
  Profile p;
  p.name = p.title = "tiny";
  p.channels = 2;
  p.dies_per_channel = 2;
  p.planes_per_die = 2;
  p.read_lanes_per_die = 2;
  p.blocks_per_plane = 48;
  p.wordlines_per_block = 8;
  p.page_bytes = p.map_unit_bytes = 4096;
  p.read_us = {50};
  p.program_us = 500;
  p.erase_us = 2000;
  p.channel_mb = 1000;
  p.link_mb = 4000;
  p.read_us_controller = p.write_us_controller = 3;
  p.submit_us = p.complete_us = 1;
  p.iops_max = 1e9;
  p.buffer_bytes = 64 * 4096;
  p.capacity_bytes = p.physical_bytes() * 3 / 4;
  return p;
}

}  // namespace artesian::nand
