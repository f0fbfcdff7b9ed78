// A drive, described: geometry, media, controller, host side, energy and price, read from a JSON file in which every
// figure carries its source or is marked as an assumption. Docs of the format: README.md in profiles/.
//
// Immutable once read. Units are in the names: _us microseconds, _mb megabytes (10^6) a second, _uj microjoules.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace artesian::nand {

enum class Collection : std::uint8_t { greedy, fifo, d_choices, cost_benefit };
enum class Suspend : std::uint8_t { none, erase, program_erase };
enum class Tiering : std::uint8_t { age, heat };
enum class Isolation : std::uint8_t { initial, persistent };  // of placement handles, as NVMe FDP names them

// A figure of a profile with where it comes from, for people.
struct Figure {
  std::string key;         // "media.program_us"
  std::string value;       // as in the file
  std::string source;      // of a published figure, or empty
  std::string assumption;  // why it was assumed, or empty
};

// What a maker or a paper says of the whole drive. Those that were not used to make the profile check it.
struct Published {
  std::string measure;  // what is measured to hold it against: see measures.h
  double figure = 0;
  std::string unit;   // for people
  bool used = false;  // in making the profile
  std::string source;
  std::string note;  // why the model differs, where it does
};

struct Profile {
  std::string name, title, about;

  // geometry
  std::uint64_t channels = 1, dies_per_channel = 1, planes_per_die = 1;
  std::uint64_t blocks_per_plane = 64,
                wordlines_per_block = 64;  // a wordline is programmed at once: bits_per_cell pages
  std::uint64_t bits_per_cell = 1, page_bytes = 16384;
  std::uint64_t read_lanes_per_die = 1;  // reads that one die can do at a time, each in its own planes

  // media, native mode
  std::vector<double> read_us{50};  // by page of the wordline
  double program_us = 500;          // one wordline, all its pages, in all planes of a die
  double erase_us = 3000;           // one block in each plane of a die
  double pe_cycles = 3000;
  double retries_fresh = 0, retries_worn = 0, retry_exponent = 2;  // expected read retries, new and at pe_cycles
  double bad_share = 0;                                            // of the blocks, from the factory
  double retries_per_month = 0;                                    // what a month without rewriting adds at pe_cycles
  // the same blocks with one bit a cell; used where pslc_superblocks or slc is set
  double slc_read_us = 25, slc_program_us = 200, slc_erase_us = 3000, slc_pe_cycles = 30000;

  // die and channel
  Suspend suspend = Suspend::none;
  double suspend_us = 0, resume_us = 0;
  bool cache_read = true, cache_program = true;  // a second register a lane: array and channel work at the same time
  double channel_mb = 1200, channel_overhead_us = 0;
  double parity_share = 0;  // bytes of parity moved for each byte of data

  // controller
  double iops_max = 1e6;
  double read_us_controller = 5, write_us_controller = 5, ecc_us = 0;
  double compress_us = 0, decompress_us = 0;  // of a request
  bool priorities = true;
  double starvation_us = 20000;  // what has waited so long goes first, whatever its class
  std::uint64_t buffer_bytes = 64 << 20;
  bool power_loss_protection = true;
  std::uint64_t read_cache_bytes = 0;     // DRAM that keeps what was read or announced
  std::vector<double> read_cache_shares;  // of it for each partition; empty: one for all

  // translation
  std::uint64_t capacity_bytes = 0, map_unit_bytes = 4096;
  std::uint64_t map_cache_bytes = 0;  // 0: the whole map is in DRAM
  std::uint64_t map_entry_bytes = 4;
  std::uint64_t stripe_dies = 1;     // over which consecutive pages go in turn; 1: a program unit is filled in order
  std::uint64_t compress_grain = 0;  // bytes; compressed units take whole grains of flash. 0: nothing is compressed
  Collection collection = Collection::greedy;
  std::uint64_t choices = 10;       // of d_choices
  std::uint64_t collect_below = 4;  // free superblocks
  std::uint64_t placement_handles = 1;
  Isolation isolation = Isolation::initial;
  std::uint64_t pslc_superblocks = 0;  // at most so many are open or full in one-bit mode, folded when more are needed
  // What is folded and what goes back: everything by age, or what is read and written often stays in one-bit mode, or
  // is moved there.
  Tiering tiering = Tiering::age;
  double wear_spread = 0;  // static levelling acts when wear differs by more than this share of pe_cycles; 0: off

  // host side
  double link_mb = 3500;
  std::uint64_t queue_depth = 1024, queues = 8;
  double submit_us = 0.5, complete_us = 0.5;

  // energy and price
  double read_uj = 0, program_uj = 0, erase_uj = 0;  // a page, a page, a block
  double channel_pj = 0, link_pj = 0;                // a byte
  double idle_w = 0;
  double usd_per_tb = 0;
  double usd_per_kwh = 0.13, service_years = 5;  // of power; after which a drive is written off, if it lasts

  std::vector<Figure> figures;
  std::vector<Published> published;

  std::uint64_t grain_bytes() const { return compress_grain == 0 ? map_unit_bytes : compress_grain; }
  std::uint64_t dies() const { return channels * dies_per_channel; }
  std::uint64_t superblock_bytes() const {
    return dies() * planes_per_die * wordlines_per_block * bits_per_cell * page_bytes;
  }
  std::uint64_t physical_bytes() const { return blocks_per_plane * superblock_bytes(); }
  double price_usd(std::uint64_t bytes) const { return usd_per_tb * static_cast<double>(bytes) * 1e-12; }
  double alpha() const { return static_cast<double>(physical_bytes()) / static_cast<double>(capacity_bytes); }
};

// `where` names the text in messages. Code::invalid, with file and line, for what is no profile or cannot be a drive.
Result<Profile> parse_profile(std::string_view json, std::string_view where);

// Code::invalid with the reason when figures contradict each other.
Status check_profile(const Profile& profile);

// Code::invalid when the drive is too large to be simulated whole: places have 32 bits.
Status check_size(const Profile& profile);

// Superblocks that are open, or kept free, when the drive is full.
std::uint64_t reserve_superblocks(const Profile& profile);

// About the same drive with less space: blocks are taken away, and wordlines where too few blocks would be left; dies,
// channels and the share of spare space stay, and with them all times. Not more than it has.
Profile with_capacity(Profile profile, std::uint64_t capacity_bytes);

// Those that ship with the program.
struct ShippedProfile {
  std::string_view name, json;
};
std::span<const ShippedProfile> shipped_profiles();

// A shipped profile by name. Code::not_found with the names there are.
Result<Profile> shipped_profile(std::string_view name);

}  // namespace artesian::nand
