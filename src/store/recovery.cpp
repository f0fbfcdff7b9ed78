#include "store/recovery.h"

#include <algorithm>
#include <cstring>

#include "base/gather.h"
#include "platform/arena.h"
#include "store/blocking_io.h"

namespace artesian {
namespace {

constexpr std::uint32_t segments_at_once = 64;
constexpr std::uint64_t read_bytes = 512 * KiB;

// A window that slides over the pages of one segment.
class SegmentReader {
 public:
  SegmentReader(BlockingIo& io, const OpenedPath& path, std::uint32_t segment, std::span<std::byte> window)
      : io_(io), path_(path), segment_(segment), window_(window) {}

  // These pages; empty if they cannot be read, or are more than the window holds.
  std::span<const std::byte> pages(std::uint32_t page, std::uint32_t count) {
    const std::uint64_t bytes = count * store_page;
    if (bytes > window_.size()) return {};
    if (page < first_ || page + count > first_ + have_) fill(page, count);
    if (page < first_ || page + count > first_ + have_) return {};
    return window_.subspan((page - first_) * store_page, bytes);
  }

 private:
  // At least `count` pages from `page` on, and as many more as one round of reads gives.
  void fill(std::uint32_t page, std::uint32_t count) {
    const std::uint64_t ahead = std::max<std::uint64_t>(count, 8 * read_bytes / store_page);
    const std::uint64_t wanted =
        std::min({ahead, std::uint64_t{path_.superblock.segment_pages() - page}, window_.size() / store_page});
    first_ = page;
    have_ = 0;
    std::vector<BlockingIo::Job> jobs;
    for (std::uint64_t at = 0; at < wanted * store_page; at += read_bytes) {
      const std::uint64_t bytes = std::min(read_bytes, wanted * store_page - at);
      jobs.push_back({.file = path_.file,
                      .offset = path_.superblock.segment_offset(segment_) + page * store_page + at,
                      .buffer = window_.subspan(at, bytes)});
    }
    io_.read(jobs);
    for (const auto& job : jobs) {
      if (!job.good) break;
      have_ += static_cast<std::uint32_t>(job.buffer.size() / store_page);
    }
  }

  BlockingIo& io_;
  const OpenedPath& path_;
  std::uint32_t segment_;
  std::span<std::byte> window_;
  std::uint32_t first_ = 0, have_ = 0;  // pages in the window
};

class Finder {
 public:
  Finder(Device& device, const OpenedPath& path, const Sealer* sealer, std::span<std::byte> window,
         std::span<std::byte> frames)
      : io_(device), path_(path), store_(path.superblock.store), sealer_(sealer), window_(window), frames_(frames) {}

  void find(std::uint32_t first, std::uint32_t count, const std::function<void(FoundSegment&)>& each) {
    std::vector<BlockingIo::Job> jobs;
    const std::uint32_t last_page = path_.superblock.segment_pages() - 1;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint64_t offset = path_.superblock.segment_offset(first + i);
      jobs.push_back({.file = path_.file, .offset = offset, .buffer = frames_.subspan(2 * i * store_page, store_page)});
      jobs.push_back({.file = path_.file,
                      .offset = offset + last_page * store_page,
                      .buffer = frames_.subspan((2 * i + 1) * store_page, store_page)});
    }
    io_.read(jobs);
    for (std::uint32_t i = 0; i < count; ++i) {
      if (!jobs[2 * i].good) continue;
      const auto header = parse_segment_header(jobs[2 * i].buffer, store_);
      if (!header || header->segment != first + i) continue;
      FoundSegment found{.header = *header, .generation_max = std::max(header->generation, header->sequence)};
      if (!jobs[2 * i + 1].good || !read_index(found, jobs[2 * i + 1].buffer)) walk(found);
      each(found);
    }
  }

 private:
  // False if the segment is not sealed, or its index is not good.
  bool read_index(FoundSegment& found, std::span<const std::byte> last_page) {
    const auto footer = parse_segment_footer(last_page, store_, path_.superblock.segment_pages());
    if (!footer || footer->segment != found.header.segment || footer->sequence != found.header.sequence) return false;
    SegmentReader reader(io_, path_, found.header.segment, window_);
    const std::uint32_t index_pages = footer->index_pages();
    std::span<const std::byte> pages;
    if (index_pages > 0) pages = reader.pages(footer->index_page, index_pages);
    auto entries = parse_index(pages, *footer, sealer_);
    if (!entries) {
      ++found.broken;
      return false;
    }
    found.sealed = true;
    found.end_page = footer->end_page;
    found.generation_max = std::max(found.generation_max, footer->generation);
    for (const IndexEntry& entry : *entries) {
      if (entry.kind == RecordKind::erasures && take_record(found, reader, entry.page) == 0) ++found.broken;
    }
    found.entries = std::move(*entries);
    return true;
  }

  void walk(FoundSegment& found) {
    SegmentReader reader(io_, path_, found.header.segment, window_);
    const std::uint32_t end = path_.superblock.segment_pages();
    bool in_broken = false;
    for (std::uint32_t page = 1; page < end;) {
      if (const std::uint32_t pages = take_record(found, reader, page); pages > 0) {
        page += pages;
        found.end_page = page;
        in_broken = false;
        continue;
      }
      const auto first = reader.pages(page, 1);
      const bool like_record = first.empty() || begins_like_record(first);
      if (like_record && !in_broken) ++found.broken;
      in_broken = like_record;
      ++page;
    }
  }

  // The good record that begins at `page`: into `found`. How many pages it has; 0 if there is none.
  std::uint32_t take_record(FoundSegment& found, SegmentReader& reader, std::uint32_t page) {
    const std::uint32_t segment_pages = path_.superblock.segment_pages();
    const std::uint32_t header_pages = stated_header_pages(reader.pages(page, 1));
    if (header_pages == 0 || header_pages > segment_pages - page) return 0;
    const auto header = reader.pages(page, header_pages);
    auto parsed = parse_record(header, store_, sealer_);
    const bool unreadable = !parsed && parsed.error().code == Code::not_found;
    if (unreadable) parsed = parse_envelope(header);
    if (!parsed || parsed->segment != found.header.segment || parsed->page != page ||
        parsed->sequence != found.header.sequence || parsed->pages() > segment_pages - page) {
      return 0;
    }
    const std::uint32_t pages = parsed->pages();
    if (unreadable) {
      found.generation_max = std::max(found.generation_max, parsed->generation);
      return pages;
    }
    const auto all = reader.pages(page, pages);
    if (all.empty()) return 0;
    const auto record = parse_record(all, store_, sealer_);  // once more: the window may have moved
    const auto payload = all.subspan(header_pages * store_page, parsed->stored_bytes);
    if (!record || !verify_payload(*record, std::span(&payload, 1))) return 0;
    found.generation_max = std::max(found.generation_max, record->generation);
    if (record->kind == RecordKind::erasures) {
      std::vector<std::byte> plain(payload.begin(), payload.end());
      const std::span<std::byte> in_place = plain;
      if (sealer_ != nullptr && !open_payload(*record, *sealer_, std::span(&in_place, 1))) return 0;
      const auto erasures = parse_erasures(plain);
      found.erasures.insert(found.erasures.end(), erasures.begin(), erasures.end());
    }
    if (found.sealed) return pages;
    IndexEntry entry{.kind = record->kind};
    if (!record->key.empty()) entry.key = hash_key(path_.superblock.secret, record->ns, record->epoch, record->key);
    if (!record->parent.empty()) {
      entry.parent = hash_key(path_.superblock.secret, record->ns, record->epoch, record->parent);
    }
    entry.generation = record->generation;
    entry.page = page;
    entry.pages = static_cast<std::uint16_t>(pages);
    entry.header_pages = static_cast<std::uint8_t>(header_pages);
    entry.position = record->position;
    entry.lifetime = record->lifetime;
    entry.codec = record->codec;
    entry.session = record->session;
    found.entries.push_back(entry);
    return pages;
  }

  BlockingIo io_;
  const OpenedPath& path_;
  Id store_;
  const Sealer* sealer_;
  std::span<std::byte> window_, frames_;
};

}  // namespace

Status find_segments(Device& device, const OpenedPath& path, const Sealer* sealer,
                     const std::function<void(FoundSegment&)>& each) {
  const std::uint64_t largest = align_up(path.superblock.block_bytes_max, store_page) + 16 * store_page;
  const std::uint64_t largest_index = index_pages_of(path.superblock.segment_pages()) * store_page;
  auto window = Arena::reserve(std::max({largest, largest_index, 8 * read_bytes}));
  auto frames = Arena::reserve(segments_at_once * 2 * store_page);
  if (!window) return fail(std::move(window.error()));
  if (!frames) return fail(std::move(frames.error()));
  Finder finder(device, path, sealer, window->span(), frames->span());
  for (std::uint32_t first = 0; first < path.superblock.segments; first += segments_at_once) {
    finder.find(first, std::min(segments_at_once, path.superblock.segments - first), each);
  }
  return {};
}

}  // namespace artesian
