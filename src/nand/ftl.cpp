#include "nand/ftl.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace artesian::nand {

FtlSettings ftl_settings(const Profile& profile) {
  FtlSettings settings{.collection = profile.collection,
                       .choices = static_cast<std::uint32_t>(profile.choices),
                       .collect_below = static_cast<std::uint32_t>(profile.collect_below),
                       .handles = static_cast<std::uint32_t>(profile.placement_handles),
                       .isolation = profile.isolation,
                       .pslc_superblocks = static_cast<std::uint32_t>(profile.pslc_superblocks),
                       .tiering = profile.tiering,
                       .wear_spread = profile.wear_spread,
                       .bad_share = profile.bad_share};
  const std::uint64_t per_page = profile.map_unit_bytes / profile.map_entry_bytes;
  const std::uint64_t units = profile.capacity_bytes / profile.map_unit_bytes;
  const bool cached = profile.map_cache_bytes != 0;
  if (cached) settings.map_pages = static_cast<std::uint32_t>((units + per_page - 1) / per_page);
  return settings;
}

Ftl::Ftl(const Layout& layout, FtlSettings settings)
    : layout_(layout), settings_(std::move(settings)), random_(settings_.seed) {
  map_.assign(std::size_t{layout_.logical_units} + settings_.map_pages, none);
  reverse_.assign(layout_.physical_grains(), none);
  if (layout_.grains_per_unit > 1) lengths_.assign(layout_.physical_grains(), 0);
  if (settings_.keep_order) {
    unit_order_.assign(layout_.physical_grains(), 0);
    trimmed_order_.assign(map_.size(), 0);
  }
  programmed_.assign(std::size_t{layout_.superblocks} * layout_.programs, 0);
  superblocks_.resize(layout_.superblocks);
  for (Superblock& block : superblocks_) block.wear_limit = static_cast<float>(0.95 + 0.1 * random_.unit());
  const std::uint32_t collectors = settings_.isolation == Isolation::persistent ? settings_.handles : 1;
  const std::uint32_t tiers = settings_.tiering == Tiering::heat ? 1 : 0;
  frontiers_.resize(std::size_t{settings_.handles} + collectors + tiers + 2);
  for (Frontier& frontier : frontiers_) frontier.buffered.assign(layout_.stripe, 0);
  taken_by_.assign(settings_.handles, 0);
  collectable_.assign(layout_.superblocks, none);
  collection_reserve_ = collectors + (settings_.pslc_superblocks > 0 ? 1 : 0) + tiers;
  reserve_ = collection_reserve_ + (settings_.wear_spread > 0 ? 1 : 0) + (settings_.map_pages > 0 ? 1 : 0);
  free_.reserve(layout_.superblocks);
  retired_ = bad_superblocks();
  for (std::uint32_t i = layout_.superblocks; i > 0; --i) {
    if (i > layout_.superblocks - retired_) {
      superblocks_[i - 1].state = BlockState::retired;
    } else {
      free_.push_back(i - 1);
    }
  }
}

// A superblock takes a good block of every plane: there are as many as the plane with the fewest good blocks has.
std::uint32_t Ftl::bad_superblocks() {
  if (settings_.bad_share <= 0) return 0;
  std::uint32_t most = 0;
  for (std::uint32_t plane = 0; plane < layout_.dies * layout_.planes; ++plane) {
    std::uint32_t bad = 0;
    for (std::uint32_t block = 0; block < layout_.superblocks; ++block) {
      bad += random_.unit() < settings_.bad_share ? 1 : 0;
    }
    most = std::max(most, bad);
  }
  return most;
}

bool Ftl::can_append(std::uint32_t frontier) const {
  if (frontiers_[frontier].superblock != none) return true;
  if (frontier < settings_.handles) return free_.size() > reserve_;
  return free_.size() >
         (frontier < levelling_frontier() ? 0 : collection_reserve_);  // they wait: collection wins space
}

bool Ftl::open(std::uint32_t frontier) {
  if (!can_append(frontier)) return false;
  // Dynamic levelling: the least worn is used next; what is moved since it is cold goes to the most worn.
  std::size_t best = free_.size() - 1;
  const bool cold = frontier == levelling_frontier();
  for (std::size_t i = free_.size() - 1; i-- > 0;) {
    const float wear = superblocks_[free_[i]].wear, than = superblocks_[free_[best]].wear;
    if (cold ? wear > than : wear < than) best = i;
  }
  const std::uint32_t index = free_[best];
  free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(best));
  Superblock& block = superblocks_[index];
  const bool host = frontier < settings_.handles;
  block.state = BlockState::open;
  const bool tier = settings_.tiering == Tiering::heat && frontier == tier_frontier();
  const bool one_bit = tier || (host && pslc_in_use_ < settings_.pslc_superblocks);
  block.mode = one_bit ? CellMode::slc : CellMode::native;
  if (block.mode == CellMode::slc) ++pslc_in_use_;
  block.valid = block.written = block.unprogrammed = 0;
  block.superseded_order = block.closed_order = 0;
  const std::uint32_t group = host ? frontier : frontier - settings_.handles;
  block.handle = static_cast<std::uint8_t>(group < settings_.handles ? group : 0);
  ++taken_by_[block.handle];
  frontiers_[frontier].superblock = index;
  return true;
}

void Ftl::note(std::uint32_t superblock) {
  const Superblock& block = superblocks_[superblock];
  const bool collectable =
      block.state == BlockState::closed && block.mode == CellMode::native && block.unprogrammed == 0;
  collectable_[superblock] = collectable ? block.valid : none;
}

void Ftl::invalidate(std::uint32_t pua, std::uint64_t order) {
  const std::uint32_t index = layout_.superblock_of(pua);
  Superblock& block = superblocks_[index];
  assert(block.valid >= length(pua));
  block.valid -= length(pua);
  block.superseded_order = order;
  if (collectable_[index] != none) collectable_[index] = block.valid;
}

Appended Ftl::make_fit(std::uint32_t frontier, std::uint32_t grains) {
  Appended last;
  const std::uint32_t index = frontiers_[frontier].superblock;
  if (index == none) return last;
  const Superblock& block = superblocks_[index];
  const std::uint32_t left = layout_.grains_per_page - block.written % layout_.grains_per_page;
  if (left >= grains) return last;
  for (std::uint32_t i = 0; i < left; ++i) last = append(frontier, none, Stream::padding, 1);
  return last;
}

Appended Ftl::append(std::uint32_t frontier, std::uint32_t lpn, Stream stream, std::uint32_t grains) {
  Frontier& front = frontiers_[frontier];
  if (front.superblock == none) {
    [[maybe_unused]] const bool opened = open(frontier);
    assert(opened);
  }
  const std::uint32_t index = front.superblock;
  Superblock& block = superblocks_[index];
  const ModeLayout& m = layout_of(block);
  const std::uint32_t pua = index * layout_.native.grains + block.written;
  const std::uint64_t order = ++order_;
  if (front.first_order == 0) front.first_order = order;
  if (layout_.begins(block.written, m)) ++block.unprogrammed;
  if (!lengths_.empty()) lengths_[pua] = static_cast<std::uint8_t>(grains);
  if (lpn != none) {
    const std::uint32_t old = std::exchange(map_[lpn], pua);
    const bool new_data = stream == Stream::host || stream == Stream::metadata || old == none;
    if (!unit_order_.empty()) unit_order_[pua] = new_data ? order : unit_order_[old];
    old != none ? invalidate(old, order) : void(++mapped_);
    block.valid += grains;
  }
  reverse_[pua] = lpn;
  programmed_grains_[static_cast<std::size_t>(stream)] += grains;
  Appended done{.pua = pua, .program = index * layout_.programs + layout_.spot_of(block.written, m).program};
  block.written += grains;
  if (layout_.ends(block.written - 1, m)) {
    done.filled = true;
    unprogrammed_.push_back({done.program, front.first_order, frontier < settings_.handles});
    if (block.written % (m.grains_per_program * layout_.stripe) == 0) front.first_order = 0;
    close_if_full(frontier, index);
  }
  return done;
}

void Ftl::close_if_full(std::uint32_t frontier, std::uint32_t superblock) {
  Superblock& block = superblocks_[superblock];
  if (block.written < layout_of(block).grains) return;
  block.state = BlockState::closed;
  block.closed_order = order_;
  frontiers_[frontier].superblock = none;
  if (block.mode == CellMode::native) closed_.emplace_back(superblock, block.closed_order);
  note(superblock);
}

std::vector<Appended> Ftl::pad(std::uint32_t frontier) {
  std::vector<Appended> filled;
  while (frontiers_[frontier].first_order != 0) {
    const Appended last = append(frontier, none, Stream::padding, 1);
    if (last.filled) filled.push_back(last);
  }
  return filled;
}

void Ftl::trim(std::uint32_t lpn) {
  const std::uint32_t old = std::exchange(map_[lpn], none);
  if (old == none) return;
  if (!trimmed_order_.empty()) trimmed_order_[lpn] = order_;
  invalidate(old, superblocks_[layout_.superblock_of(old)].superseded_order);
  --mapped_;
}

void Ftl::program_done(std::uint32_t program, Time now) {
  programmed_[program] = 1;
  Superblock& block = superblocks_[program / layout_.programs];
  --block.unprogrammed;
  block.programmed_at = now;
  note(program / layout_.programs);
  const auto found = std::ranges::find(unprogrammed_, program, &Open::program);
  assert(found != unprogrammed_.end());
  *found = unprogrammed_.back();
  unprogrammed_.pop_back();
}

std::uint64_t Ftl::oldest_unprogrammed(bool host_only) const {
  std::uint64_t oldest = order_ + 1;
  for (const Open& one : unprogrammed_) {
    if (one.host || !host_only) oldest = std::min(oldest, one.order);
  }
  const std::size_t frontiers = host_only ? settings_.handles : frontiers_.size();
  for (std::size_t i = 0; i < frontiers; ++i) {
    if (frontiers_[i].first_order != 0) oldest = std::min(oldest, frontiers_[i].first_order);
  }
  return oldest;
}

bool Ftl::needs_collection(std::size_t coming) const {
  return free_.size() + coming < std::max<std::size_t>(settings_.collect_below, std::size_t{reserve_} + 1);
}

// Folding wins two thirds of a superblock and more: on a full drive the space that one-bit mode takes is given back.
bool Ftl::needs_fold() const {
  if (pslc_in_use_ == 0) return false;
  return pslc_in_use_ >= settings_.pslc_superblocks || needs_collection();
}

// Higher is better to collect.
double Ftl::score(const Superblock& block) const {
  const double used = static_cast<double>(block.valid) / static_cast<double>(layout_of(block).grains);
  switch (settings_.collection) {
    case Collection::fifo:
      return -static_cast<double>(block.closed_order);
    case Collection::cost_benefit:
      return used == 0 ? 1e300 : static_cast<double>(order_ - block.closed_order) * (1 - used) / (2 * used);
    case Collection::greedy:
    case Collection::d_choices:
      break;
  }
  return -used;
}

// The first that was closed; nothing while it is still being programmed.
std::optional<std::uint32_t> Ftl::oldest_closed() {
  while (!closed_.empty()) {
    const auto [index, order] = closed_.front();
    const Superblock& block = superblocks_[index];
    if (block.state == BlockState::closed && block.closed_order == order) {
      return block.unprogrammed == 0 ? std::optional(index) : std::nullopt;
    }
    closed_.pop_front();
  }
  return {};
}

// Closed superblocks of this mode (and handle, unless negative) by score. FIFO takes the oldest even when it gains
// nothing.
std::optional<std::uint32_t> Ftl::choose(CellMode mode, int handle) {
  if (mode == CellMode::native && handle < 0 && settings_.collection == Collection::fifo) return oldest_closed();
  if (mode == CellMode::native && handle < 0 && settings_.collection == Collection::greedy) {
    const auto least = std::ranges::min_element(collectable_);
    if (*least >= layout_.native.grains) return {};
    return static_cast<std::uint32_t>(least - collectable_.begin());
  }
  std::optional<std::uint32_t> best;
  double best_score = 0;
  const auto consider = [&](std::uint32_t index) {
    const Superblock& block = superblocks_[index];
    if (block.state != BlockState::closed || block.mode != mode || block.unprogrammed > 0) return;
    if (handle >= 0 && block.handle != handle) return;
    if (settings_.collection != Collection::fifo && block.valid == layout_of(block).grains) return;
    const double value = score(block);
    if (!best || value > best_score) {
      best = index;
      best_score = value;
    }
  };
  if (settings_.collection == Collection::d_choices && mode == CellMode::native) {
    for (std::uint32_t tries = 0, seen = 0; seen < settings_.choices && tries < 16 * settings_.choices; ++tries) {
      const auto index = static_cast<std::uint32_t>(random_.below(layout_.superblocks));
      if (superblocks_[index].state == BlockState::closed) ++seen;
      consider(index);
    }
    if (best) return best;
  }
  for (std::uint32_t index = 0; index < layout_.superblocks; ++index) consider(index);
  return best;
}

std::optional<std::uint32_t> Ftl::take_victim() {
  int handle = -1;
  if (!settings_.quota.empty()) {
    // The handle that is furthest above its quota gives; all below it: nobody has to.
    std::int64_t most = INT64_MIN;
    for (std::size_t i = 0; i < taken_by_.size(); ++i) {
      const std::int64_t above = std::int64_t{taken_by_[i]} - std::int64_t{settings_.quota[i]};
      if (above > most) {
        most = above;
        handle = static_cast<int>(i);
      }
    }
  }
  const auto victim = choose(CellMode::native, handle);
  if (victim) {
    superblocks_[*victim].state = BlockState::collecting;
    note(*victim);
  }
  return victim;
}

std::optional<std::uint32_t> Ftl::take_fold_victim() {
  std::optional<std::uint32_t> oldest;
  for (std::uint32_t index = 0; index < layout_.superblocks; ++index) {
    const Superblock& block = superblocks_[index];
    if (block.state != BlockState::closed || block.mode != CellMode::slc || block.unprogrammed > 0) continue;
    if (!oldest || block.closed_order < superblocks_[*oldest].closed_order) oldest = index;
  }
  if (oldest) superblocks_[*oldest].state = BlockState::collecting;
  return oldest;
}

std::optional<std::uint32_t> Ftl::take_cold_victim() {
  if (settings_.wear_spread <= 0) return {};
  std::optional<std::uint32_t> coldest;
  float most = 0;
  for (std::uint32_t index = 0; index < layout_.superblocks; ++index) {
    const Superblock& block = superblocks_[index];
    if (block.state != BlockState::retired) most = std::max(most, block.wear);
    if (block.state != BlockState::closed || block.mode != CellMode::native || block.unprogrammed > 0) continue;
    const bool colder =
        !coldest || block.wear < superblocks_[*coldest].wear ||
        (block.wear == superblocks_[*coldest].wear && block.closed_order < superblocks_[*coldest].closed_order);
    if (colder) coldest = index;
  }
  if (!coldest || most - superblocks_[*coldest].wear < static_cast<float>(settings_.wear_spread)) return {};
  superblocks_[*coldest].state = BlockState::collecting;
  note(*coldest);
  return coldest;
}

void Ftl::start_erase(std::uint32_t superblock) {
  assert(superblocks_[superblock].valid == 0);
  superblocks_[superblock].state = BlockState::erasing;
}

void Ftl::finish_erase(std::uint32_t superblock) {
  Superblock& block = superblocks_[superblock];
  const ModeLayout& m = layout_of(block);
  const std::size_t first = std::size_t{superblock} * layout_.native.grains;
  std::fill_n(reverse_.begin() + static_cast<std::ptrdiff_t>(first), m.grains, none);
  std::fill_n(programmed_.begin() + static_cast<std::ptrdiff_t>(std::size_t{superblock} * layout_.programs),
              layout_.programs, std::uint8_t{0});
  ++block.erases;
  ++erases_;
  block.wear += static_cast<float>(1 / m.pe_cycles);
  if (block.mode == CellMode::slc) --pslc_in_use_;
  --taken_by_[block.handle];
  block.mode = CellMode::native;
  block.written = 0;
  collectable_[superblock] = none;
  if (block.wear >= block.wear_limit) {
    block.state = BlockState::retired;
    ++retired_;
    // Data, what is open, what collection keeps free, and one to gain.
    const std::size_t data =
        (map_.size() * layout_.grains_per_unit + layout_.native.grains - 1) / layout_.native.grains;
    worn_out_ = layout_.superblocks - retired_ < data + frontiers_.size() + reserve_ + 1;
    return;
  }
  block.state = BlockState::free;
  free_.push_back(superblock);
}

bool Ftl::append_now(std::uint32_t frontier, std::uint32_t lpn, Stream stream, std::uint32_t grains) {
  const Appended fitted = make_fit(frontier, grains);
  if (fitted.filled) program_done(fitted.program, 0);
  if (!can_append(frontier)) return false;
  const Appended done = append(frontier, lpn, stream, grains);
  if (done.filled) program_done(done.program, 0);
  return true;
}

bool Ftl::collect_now(std::uint32_t victim, Stream stream) {
  const Superblock& block = superblocks_[victim];
  const std::uint32_t frontier = stream == Stream::levelling ? levelling_frontier() : collection_frontier(block.handle);
  const std::uint32_t first = victim * layout_.native.grains;
  for (std::uint32_t pua = first; pua < first + layout_of(block).grains && block.valid > 0; ++pua) {
    if (!valid(pua)) continue;
    if (!append_now(frontier, reverse_[pua], stream, length(pua))) return false;
    if (on_move) on_move(pua, map_[reverse_[pua]]);
  }
  start_erase(victim);
  finish_erase(victim);
  return true;
}

bool Ftl::make_room_now() {
  if (needs_fold()) {
    if (const auto victim = take_fold_victim()) return collect_now(*victim, Stream::fold);
  }
  const auto victim = take_victim();
  return victim && collect_now(*victim, Stream::collection);
}

bool Ftl::write_now(std::uint32_t handle, std::uint32_t lpn, std::uint32_t grains) {
  const bool map_page = lpn >= layout_.logical_units;
  const std::uint32_t frontier = map_page ? map_frontier() : host_frontier(handle);
  do {
    while (!can_append(frontier) || needs_collection() || (needs_fold() && frontiers_[frontier].superblock == none)) {
      if (worn_out_) return false;
      if (!make_room_now()) {
        if (can_append(frontier)) break;  // nothing to gain, and still a place
        return false;
      }
    }
  } while (!append_now(frontier, lpn, map_page ? Stream::metadata : Stream::host, grains));
  return true;
}

bool Ftl::lost(std::uint32_t pua) const {
  return programmed_[layout_.program_of(pua, superblocks_[layout_.superblock_of(pua)].mode)] == 0;
}

// Which of two places holds what a unit of the map was last given. A copy has its source's age: where both are there,
// the source counts that was being collected. So copies that were under way give back all the space they took, and
// collection can begin again whatever was lost.
bool Ftl::newer(std::uint32_t pua, std::uint32_t known) const {
  if (known == none || unit_order_[pua] != unit_order_[known]) {
    return known == none || unit_order_[pua] > unit_order_[known];
  }
  return superblocks_[layout_.superblock_of(pua)].state == BlockState::collecting;
}

void Ftl::rebuild(bool keep_unprogrammed) {
  assert(!unit_order_.empty());
  std::ranges::fill(map_, none);
  mapped_ = 0;
  for (std::uint32_t frontier = 0; frontier < frontiers_.size(); ++frontier) {
    pad(frontier);  // the wordline that was interrupted holds no more
    std::ranges::fill(frontiers_[frontier].buffered, 0);
  }
  for (std::uint32_t index = 0; index < layout_.superblocks; ++index) {
    Superblock& block = superblocks_[index];
    if (block.state == BlockState::erasing) finish_erase(index);  // half erased: erased again
    block.valid = block.unprogrammed = 0;
    const std::uint32_t first = index * layout_.native.grains;
    for (std::uint32_t pua = first; pua < first + block.written; ++pua) {
      if (!keep_unprogrammed && lost(pua)) reverse_[pua] = none;
      if (reverse_[pua] == none) continue;
      if (unit_order_[pua] <= trimmed_order_[reverse_[pua]]) continue;
      std::uint32_t& known = map_[reverse_[pua]];
      if (newer(pua, known)) known = pua;
    }
  }
  unprogrammed_.clear();
  closed_.clear();
  for (const std::uint32_t pua : map_) {
    if (pua == none) continue;
    superblocks_[layout_.superblock_of(pua)].valid += length(pua);
    ++mapped_;
  }
  for (std::uint32_t index = 0; index < layout_.superblocks; ++index) take_back(index);
  std::ranges::sort(closed_, {}, &std::pair<std::uint32_t, std::uint64_t>::second);
}

// A superblock after a loss of power: all that was begun in it counts as programmed; with nothing in it, it is free.
void Ftl::take_back(std::uint32_t index) {
  Superblock& block = superblocks_[index];
  if (block.state == BlockState::collecting) block.state = BlockState::closed;
  if (block.state == BlockState::closed && block.valid == 0) return finish_erase(index);
  const auto first = programmed_.begin() + static_cast<std::ptrdiff_t>(std::size_t{index} * layout_.programs);
  std::fill_n(first, block.written / layout_of(block).grains_per_program, std::uint8_t{1});
  note(index);
  if (collectable_[index] != none) closed_.emplace_back(index, block.closed_order);
}

void Ftl::reset_counters() {
  std::ranges::fill(programmed_grains_, 0);
  erases_ = 0;
}

std::uint64_t Ftl::memory_bytes() const {
  return (map_.capacity() + reverse_.capacity()) * sizeof(std::uint32_t) +
         (unit_order_.capacity() + trimmed_order_.capacity()) * sizeof(std::uint64_t) + programmed_.capacity() +
         lengths_.capacity() + superblocks_.capacity() * sizeof(Superblock);
}

double Ftl::wear_mean() const {
  double sum = 0;
  for (const Superblock& block : superblocks_) sum += static_cast<double>(block.wear);
  return sum / static_cast<double>(superblocks_.size());
}

double Ftl::wear_max() const {
  float most = 0;
  for (const Superblock& block : superblocks_) most = std::max(most, block.wear);
  return static_cast<double>(most);
}

}  // namespace artesian::nand
