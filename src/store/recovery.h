// What lies in the segments of a path, found out when a store is opened: sealed indexes are read, unsealed tails are
// walked record by record with every byte of them verified, and what is broken is skipped and counted.
//
// Threads: none but the caller's; the device is nobody else's meanwhile.
#pragma once

#include <functional>
#include <vector>

#include "device/device.h"
#include "format/segment.h"
#include "store/layout.h"

namespace artesian {

// One segment with a good header. Its number is that within the path.
struct FoundSegment {
  SegmentHeader header;
  bool sealed = false;
  std::uint32_t end_page = 1;  // behind the last good record
  std::uint64_t generation_max = 0;
  std::uint64_t broken = 0;  // records or indexes that were skipped
  std::vector<IndexEntry> entries;
  std::vector<Erasure> erasures;
};

// Calls `each` for every segment of the path that has a good header, in no particular order. Device errors count as
// broken: a segment that cannot be read holds nothing. Records of erased namespaces that nobody can read any more are
// passed over. `each` may read from the device.
Status find_segments(Device& device, const OpenedPath& path, const Sealer* sealer,
                     const std::function<void(FoundSegment&)>& each);

}  // namespace artesian
