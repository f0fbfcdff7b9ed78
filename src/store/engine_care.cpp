// What an owner does for a store now and then: space that dead blocks hold is given back, what is broken is made to
// stay away, and namespaces of another store are taken over.
#include <algorithm>

#include "store/engine.h"

namespace artesian {

// Of a namespace that is there, in its present epoch.
bool Engine::is_current(const RecordHeader& record) const {
  return std::ranges::any_of(
      namespaces_, [&](const Namespace& ns) { return ns.slot.epoch == record.epoch && ns.slot.digest == record.ns; });
}

Result<CompactReport> Engine::compact(double below, const std::function<void(const CompactReport&)>& progress) {
  forget_erased();
  Lock lock(mutex_);
  struct Sparse {
    std::uint32_t segment, live_pages;
    std::uint64_t sequence;
  };
  std::vector<Sparse> sparse;
  CompactReport report;
  for (std::uint32_t i = 0; i < segments_.count(); ++i) {
    const Segment& segment = segments_[i];
    const Segments::Path& path = segments_.path_of(i);
    if (segment.state != Segment::State::sealed || path.failed) continue;
    if (segment.live_pages >= below * path.superblock.segment_pages()) continue;
    sparse.push_back({.segment = i, .live_pages = segment.live_pages, .sequence = segment.sequence});
  }
  std::ranges::sort(sparse, {}, &Sparse::live_pages);  // most is gained by the first ones
  report.of = sparse.size();
  const std::uint64_t carried_before = stats_.bytes_carried;
  for (const Sparse& one : sparse) {
    const std::size_t path = segments_.path_number(one.segment);
    const auto usable = [&] { return !segments_.paths()[path].failed; };
    drive_until(lock, [&] { return !reclaims_[path] || !usable(); });
    const Segment& segment = segments_[one.segment];
    const bool still = segment.state == Segment::State::sealed && segment.sequence == one.sequence;
    // Of two segments one stays free, or what is carried would have nowhere to go.
    if (still && usable() && segments_.paths()[path].free > 0) {
      begin_reclaim(path, one.segment, Keep::all);
      start_queued();
      drive_until(lock, [&] { return segments_[one.segment].sequence != one.sequence || !usable(); });
      ++report.emptied;
    }
    ++report.segments;
    report.bytes_carried = stats_.bytes_carried - carried_before;
    if (!progress) continue;
    const CompactReport now = report;
    lock.unlock();
    progress(now);
    lock.lock();
  }
  lock.unlock();
  if (auto flushed = flush(); !flushed) return fail(std::move(flushed.error()));
  return report;
}

Result<VerifyReport> Engine::repair(const std::function<void(const VerifyReport&)>& progress) {
  auto report = check_all(progress, true);
  if (!report) return report;
  {
    Lock lock(mutex_);
    seal_closed();  // segments whose index was broken, and that were walked
    for (NamespaceId id = 0; id < namespaces_.size(); ++id) {
      for (int copy = 0; copy < 2 && namespaces_[id].slot.epoch != 0; ++copy) {
        if (auto written = write_slot(lock, id); !written) return fail(std::move(written.error()));
      }
    }
  }
  if (auto flushed = flush(); !flushed) return fail(std::move(flushed.error()));
  return report;
}

}  // namespace artesian
