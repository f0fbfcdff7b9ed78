// The segments of all paths: which is free, open, sealed, and where the next record goes. Bookkeeping without I/O: who
// calls writes the headers and indexes that it asks for.
//
// Threads: the owner's lock. Segments are numbered over all paths; pages are those of 4 KiB in a segment.
#pragma once

#include <array>
#include <optional>
#include <unordered_set>
#include <vector>

#include "format/segment.h"
#include "store/layout.h"

namespace artesian {

constexpr std::uint8_t lifetimes_limit = 4;

struct Segment {
  enum class State : std::uint8_t { free, open, sealing, sealed, reclaiming };
  State state = State::free;
  std::uint8_t lifetime = 0;
  bool header_failed = false;  // its header cannot be written: a restart will not find it
  std::uint32_t next_page = 1;
  std::uint32_t live_pages = 0;      // of blocks in the index
  std::uint32_t readers = 0;         // reads under way or waiting; it is not reused before
  std::uint32_t writers = 0;         // records placed and not yet written; it is not sealed before
  std::uint64_t sequence = 0;        // of what is in it; 0: free
  std::vector<std::uint64_t> stale;  // earlier ones that are wiped, but not yet durably
  std::vector<IndexEntry> entries;   // while open
  std::uint32_t entries_placed = 0;  // those and the ones under way
  std::uint64_t generation_max = 0;
  std::vector<Erasure> erasures;  // what its erasures records hold
};

struct Place {
  std::uint32_t segment = 0, page = 0;
  std::uint64_t sequence = 0;
};

class Segments {
 public:
  struct Path {
    FileIndex file = 0;
    Superblock superblock;
    std::uint32_t first = 0;  // number of its first segment
    std::uint32_t free = 0;
    std::array<std::optional<std::uint32_t>, lifetimes_limit> open;
    std::uint8_t lifetimes = 1;   // how many may be open at once
    std::uint32_t next_free = 0;  // where to look for a free one first: they are used by turns
    std::uint32_t errors = 0;     // of writes, in a row
    bool failed = false;          // takes no more writes
    bool lost = false;            // and is not flushed any more: that it does not last was said
  };

  explicit Segments(const std::vector<OpenedPath>& paths);

  std::vector<Path>& paths() { return paths_; }
  const std::vector<Path>& paths() const { return paths_; }
  std::uint32_t count() const { return static_cast<std::uint32_t>(segments_.size()); }
  Segment& operator[](std::uint32_t segment) { return segments_[segment]; }
  const Segment& operator[](std::uint32_t segment) const { return segments_[segment]; }
  Path& path_of(std::uint32_t segment);
  std::size_t path_number(std::uint32_t segment) { return static_cast<std::size_t>(&path_of(segment) - paths_.data()); }
  std::uint32_t number_in_path(std::uint32_t segment) { return segment - path_of(segment).first; }
  std::uint64_t offset(std::uint32_t segment, std::uint32_t page);  // in the path's file

  // Room for a record in the open segment of its class; a free segment is opened if there is none, of which `spare`
  // stay. Opening and closing is noted in `opened` and `closed`, which the caller works off. Nothing if full.
  std::optional<Place> place(Path& path, std::uint8_t lifetime, std::uint32_t pages, std::uint32_t spare,
                             std::uint64_t sequence_if_opened);
  void close_open(Path& path, std::uint8_t lifetime);

  std::optional<std::uint32_t> opened;  // by the last place(): its header must be written
  std::vector<std::uint32_t> closed;    // no more records go there: to be sealed when its writers are done

  // The sealed segment that was opened first.
  std::optional<std::uint32_t> oldest_sealed(const Path& path) const;
  void free(std::uint32_t segment);  // its header on flash is wiped

  // Whether a segment of that sequence may still be on flash, after a crash at the latest.
  bool may_be_on_flash(std::uint64_t sequence) const { return on_flash_.contains(sequence); }
  void note_on_flash(std::uint64_t sequence) { on_flash_.insert(sequence); }
  bool has_stale() const { return stale_count_ > 0; }
  // All that were wiped before now; to be forgotten once the device was flushed.
  struct Stale {
    std::vector<std::uint64_t> sequences;
    std::vector<std::uint32_t> free;  // segments of theirs in which there is nothing since
  };
  Stale take_stale(const Path& path);
  void forget(const std::vector<std::uint64_t>& stale);

 private:
  std::vector<Path> paths_;
  std::vector<Segment> segments_;
  std::unordered_set<std::uint64_t> on_flash_;
  std::size_t stale_count_ = 0;
};

}  // namespace artesian
