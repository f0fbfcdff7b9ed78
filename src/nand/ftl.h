// The translation layer's state: which unit of the map lies where, superblocks and their wear, open frontiers, what to
// collect. It knows nothing of time: the drive (drive.h) decides when, and `write_now` does the same at once.
//
// Not thread safe. Addresses: lpn, a unit of the map (the last `map_pages` are pages of the map itself); pua, see
// layout.h; program, a program unit counted over the whole drive. Lengths are in grains: a unit takes all of its
// grains, or fewer where the drive compresses.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "nand/layout.h"
#include "nand/random.h"

namespace artesian::nand {

// Who caused a unit to be programmed.
enum class Stream : std::uint8_t { host, collection, levelling, fold, metadata, padding };
constexpr std::size_t stream_count = 6;

struct FtlSettings {
  Collection collection = Collection::greedy;
  std::uint32_t choices = 10;
  std::uint32_t collect_below = 2;  // free superblocks
  std::uint32_t handles = 1;
  Isolation isolation = Isolation::initial;
  std::uint32_t pslc_superblocks = 0;
  Tiering tiering = Tiering::age;
  double wear_spread = 0;
  double bad_share = 0;
  std::uint32_t map_pages = 0;
  bool keep_order = false;  // remember when the data of every unit were written: needed to rebuild the map
  std::vector<std::uint32_t>
      quota;  // superblocks that each handle's data may take; empty: no limits, needs `persistent`
  std::uint64_t seed = 1;
};
FtlSettings ftl_settings(const Profile& profile);

enum class BlockState : std::uint8_t { free, open, closed, collecting, erasing, retired };

struct Superblock {
  std::uint32_t valid = 0;         // grains, as is `written`
  std::uint32_t written = 0;       // appended since it was erased
  std::uint32_t unprogrammed = 0;  // program units begun and not yet on flash
  std::uint32_t erases = 0;
  float wear = 0, wear_limit = 1;  // share of its life; what it lives for, drawn per superblock
  BlockState state = BlockState::free;
  CellMode mode = CellMode::native;
  std::uint8_t handle = 0;
  std::uint64_t closed_order = 0;
  std::uint64_t superseded_order = 0;  // order of the write that last made a unit of it stale
  Time programmed_at = 0;              // when it was closed, for retention
};

// One place of appending: host data of a handle, copies of collection, levelling, or the map.
struct Frontier {
  std::uint32_t superblock = none;
  // Grains of the host's in each open program unit of the stripe that hold a place in the write buffer.
  std::vector<std::uint32_t> buffered;
  std::uint64_t first_order = 0;  // of the open stripe's first unit; 0 if it has none
};

struct Appended {
  std::uint32_t pua = none;
  std::uint32_t program = none;
  bool filled = false;  // the program unit is complete and can be programmed
};

class Ftl {
 public:
  Ftl(const Layout& layout, FtlSettings settings);

  // Frontiers by purpose.
  std::uint32_t host_frontier(std::uint32_t handle) const { return handle; }
  std::uint32_t collection_frontier(std::uint32_t handle) const {
    return settings_.handles + (settings_.isolation == Isolation::persistent ? handle : 0);
  }
  std::uint32_t tier_frontier() const { return levelling_frontier() - 1; }  // of tiering by heat
  std::uint32_t levelling_frontier() const { return static_cast<std::uint32_t>(frontiers_.size()) - 2; }
  std::uint32_t map_frontier() const { return static_cast<std::uint32_t>(frontiers_.size()) - 1; }
  Frontier& frontier(std::uint32_t index) { return frontiers_[index]; }
  std::size_t frontier_count() const { return frontiers_.size(); }

  std::uint32_t lookup(std::uint32_t lpn) const { return map_[lpn]; }
  std::uint32_t owner(std::uint32_t pua) const { return reverse_[pua]; }  // lpn, valid or not; none: nothing there
  bool valid(std::uint32_t pua) const { return reverse_[pua] != none && map_[reverse_[pua]] == pua; }
  bool programmed(std::uint32_t pua) const {
    return programmed_[layout_.program_of(pua, superblocks_[layout_.superblock_of(pua)].mode)] != 0;
  }
  const Superblock& superblock(std::uint32_t index) const { return superblocks_[index]; }
  CellMode mode_of(std::uint32_t pua) const { return superblocks_[layout_.superblock_of(pua)].mode; }
  std::uint32_t length(std::uint32_t pua) const { return lengths_.empty() ? 1 : lengths_[pua]; }

  // Whether append() has a place: an open superblock, or a free one that this frontier may take.
  bool can_append(std::uint32_t frontier) const;
  // Fills up the open page if a unit of so many grains has no room in it: before append(). It may fill a program unit,
  // and the superblock with it.
  Appended make_fit(std::uint32_t frontier, std::uint32_t grains);
  Appended append(std::uint32_t frontier, std::uint32_t lpn, Stream stream, std::uint32_t grains);
  // make_fit() and append() of what is on flash at once, in no time. False if there is no place.
  bool append_now(std::uint32_t frontier, std::uint32_t lpn, Stream stream, std::uint32_t grains);
  // Fills the rest of the frontier's open stripe with nothing; the program units that this completes.
  std::vector<Appended> pad(std::uint32_t frontier);
  void trim(std::uint32_t lpn);

  void program_done(std::uint32_t program, Time now);
  // Order of the oldest unit that is not on flash yet; what was written before it survives a loss of power.
  // `host_only`: of the host's data; copies under way still have their sources.
  std::uint64_t oldest_unprogrammed(bool host_only = false) const;

  // `coming`: superblocks whose erase is under way.
  bool needs_collection(std::size_t coming = 0) const;
  bool needs_fold() const;
  // What to collect next; nothing if no superblock gains anything. It is `collecting` from then on.
  std::optional<std::uint32_t> take_victim();
  std::optional<std::uint32_t> take_fold_victim();
  std::optional<std::uint32_t> take_cold_victim();  // for static wear levelling
  void start_erase(std::uint32_t superblock);
  void finish_erase(std::uint32_t superblock);

  std::uint32_t free_superblocks() const { return static_cast<std::uint32_t>(free_.size()); }
  std::uint32_t reserve() const { return reserve_; }
  std::uint32_t pslc_in_use() const { return pslc_in_use_; }
  std::uint64_t order() const { return order_; }
  std::uint64_t mapped_units() const { return mapped_; }
  // Too many superblocks are retired for what the drive has promised to hold.
  bool worn_out() const { return worn_out_; }
  void wear_out() { worn_out_ = true; }  // collection found no space to work in
  std::uint32_t retired() const { return retired_; }

  // Without time: as the drive would do it, at once; a page of the map where `lpn` is one. False when the drive is worn
  // out.
  bool write_now(std::uint32_t handle, std::uint32_t lpn, std::uint32_t grains);
  // Told of every unit that collection moves without time, so that its bytes can follow.
  std::function<void(std::uint32_t from, std::uint32_t to)> on_move;

  // After a loss of power: all that was not programmed is gone unless `keep_unprogrammed`, the map is rebuilt from what
  // the units themselves say, what was being collected is where it was. Needs keep_order.
  void rebuild(bool keep_unprogrammed);

  // Grains programmed since the start, by cause.
  const std::uint64_t* programmed_grains() const { return programmed_grains_; }
  std::uint64_t erases() const { return erases_; }
  void reset_counters();
  std::uint64_t memory_bytes() const;  // of the tables, by far the largest part of a drive
  double wear_mean() const;
  double wear_max() const;

 private:
  const ModeLayout& layout_of(const Superblock& block) const { return layout_.mode(block.mode); }
  std::uint32_t bad_superblocks();
  bool open(std::uint32_t frontier);
  void close_if_full(std::uint32_t frontier, std::uint32_t superblock);
  void note(std::uint32_t superblock);
  std::optional<std::uint32_t> oldest_closed();
  void invalidate(std::uint32_t pua, std::uint64_t order);
  double score(const Superblock& block) const;
  std::optional<std::uint32_t> choose(CellMode mode, int handle);
  bool make_room_now();
  bool collect_now(std::uint32_t victim, Stream stream);
  bool lost(std::uint32_t pua) const;
  bool newer(std::uint32_t pua, std::uint32_t known) const;
  void take_back(std::uint32_t superblock);

  Layout layout_;
  FtlSettings settings_;
  Random random_;
  std::vector<std::uint32_t> map_, reverse_;
  std::vector<std::uint8_t> lengths_;      // by pua; empty: all are 1
  std::vector<std::uint64_t> unit_order_;  // when its data were written; a copy has its source's
  std::vector<std::uint64_t>
      trimmed_order_;  // by lpn: what is no younger is gone; a journal that no loss of power harms
  std::vector<std::uint8_t> programmed_;
  std::vector<Superblock> superblocks_;
  std::vector<Frontier> frontiers_;
  std::vector<std::uint32_t> free_;
  // Valid grains of each closed native superblock that is on flash, `none` for the others: greedy looks at nothing
  // else.
  std::vector<std::uint32_t> collectable_;
  std::deque<std::pair<std::uint32_t, std::uint64_t>>
      closed_;                           // native superblocks and when they were closed, for FIFO
  std::vector<std::uint32_t> taken_by_;  // superblocks of each handle, for quotas
  struct Open {
    std::uint32_t program;
    std::uint64_t order;
    bool host;
  };
  std::vector<Open> unprogrammed_;  // complete program units on their way to flash
  std::uint64_t order_ = 0;
  std::uint64_t mapped_ = 0;
  // Free superblocks that the host's data leave to the drive, and that all but collection and folding leave to these.
  std::uint32_t reserve_ = 1, collection_reserve_ = 1;
  std::uint32_t pslc_in_use_ = 0, retired_ = 0;
  bool worn_out_ = false;
  std::uint64_t programmed_grains_[stream_count] = {};
  std::uint64_t erases_ = 0;
};

}  // namespace artesian::nand
