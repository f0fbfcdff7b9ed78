#include "store/segments.h"

#include <algorithm>
#include <cassert>

namespace artesian {

Segments::Segments(const std::vector<OpenedPath>& paths) {
  std::uint32_t first = 0;
  for (const OpenedPath& opened_path : paths) {
    Path path{.file = opened_path.file, .superblock = opened_path.superblock, .first = first};
    path.free = path.superblock.segments;
    path.lifetimes = static_cast<std::uint8_t>(std::clamp<std::uint32_t>(path.free / 4, 1, lifetimes_limit));
    first += path.superblock.segments;
    paths_.push_back(path);
  }
  segments_.resize(first);
}

Segments::Path& Segments::path_of(std::uint32_t segment) {
  auto path = std::ranges::upper_bound(paths_, segment, {}, &Path::first);
  return *std::prev(path);
}

std::uint64_t Segments::offset(std::uint32_t segment, std::uint32_t page) {
  const Path& path = path_of(segment);
  return path.superblock.segment_offset(segment - path.first) + page * store_page;
}

std::optional<Place> Segments::place(Path& path, std::uint8_t lifetime, std::uint32_t pages, std::uint32_t spare,
                                     std::uint64_t sequence_if_opened) {
  opened.reset();
  lifetime = std::min<std::uint8_t>(lifetime, path.lifetimes - 1);
  if (const auto open = path.open[lifetime]) {
    const Segment& segment = segments_[*open];
    const std::uint64_t end = std::uint64_t{segment.next_page} + pages + index_pages_of(segment.entries_placed + 1) + 1;
    if (end > path.superblock.segment_pages()) {
      if (path.free <= spare) return std::nullopt;
      close_open(path, lifetime);
    }
  }
  if (!path.open[lifetime]) {
    if (path.free <= spare) return std::nullopt;
    while (segments_[path.first + path.next_free].state != Segment::State::free) {
      path.next_free = (path.next_free + 1) % path.superblock.segments;
    }
    const std::uint32_t number = path.first + path.next_free;
    Segment fresh{.state = Segment::State::open, .lifetime = lifetime, .sequence = sequence_if_opened};
    fresh.stale = std::move(segments_[number].stale);
    segments_[number] = std::move(fresh);
    note_on_flash(sequence_if_opened);
    --path.free;
    path.open[lifetime] = opened = number;
  }
  Segment& segment = segments_[*path.open[lifetime]];
  const Place place{.segment = *path.open[lifetime], .page = segment.next_page, .sequence = segment.sequence};
  segment.next_page += pages;
  ++segment.entries_placed;
  ++segment.writers;
  return place;
}

void Segments::close_open(Path& path, std::uint8_t lifetime) {
  if (!path.open[lifetime]) return;
  segments_[*path.open[lifetime]].state = Segment::State::sealing;
  closed.push_back(*path.open[lifetime]);
  path.open[lifetime].reset();
}

std::optional<std::uint32_t> Segments::oldest_sealed(const Path& path) const {
  std::optional<std::uint32_t> oldest;
  for (std::uint32_t i = path.first; i < path.first + path.superblock.segments; ++i) {
    if (segments_[i].state != Segment::State::sealed) continue;
    if (!oldest || segments_[i].sequence < segments_[*oldest].sequence) oldest = i;
  }
  return oldest;
}

void Segments::free(std::uint32_t segment) {
  Segment& freed = segments_[segment];
  assert(freed.readers == 0 && freed.writers == 0 && freed.live_pages == 0);
  auto stale = std::move(freed.stale);
  stale.push_back(freed.sequence);
  ++stale_count_;
  freed = Segment{};
  freed.stale = std::move(stale);
  ++path_of(segment).free;
}

Segments::Stale Segments::take_stale(const Path& path) {
  Stale stale;
  for (std::uint32_t i = path.first; i < path.first + path.superblock.segments; ++i) {
    Segment& segment = segments_[i];
    if (segment.stale.empty()) continue;
    stale.sequences.insert(stale.sequences.end(), segment.stale.begin(), segment.stale.end());
    if (segment.state == Segment::State::free) stale.free.push_back(i);
    segment.stale.clear();
  }
  stale_count_ -= stale.sequences.size();
  return stale;
}

void Segments::forget(const std::vector<std::uint64_t>& stale) {
  for (const std::uint64_t sequence : stale) on_flash_.erase(sequence);
}

}  // namespace artesian
