// How much memory this process may have, and how much of that is taken: control groups version 1 and 2 with all visible
// ancestors, the machine as a whole, and memory pressure. Cheap enough for ten times a second: files stay open.
//
// Sizes in bytes. Everything is read below a root folder (in tests a recorded tree). A file that is missing or makes no
// sense counts as absent: no limit, no pressure. Threads: one caller at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace artesian {

struct MemoryFacts {
  // The limit that leaves the least: a control group's with what that group holds, or else the whole machine's.
  std::uint64_t limit = 0;
  std::string limit_source;           // for people: "memory limit of the control group /user.slice (memory.max)"
  std::uint64_t unreclaimable = 0;    // under that limit: all but file pages that the kernel can drop
  std::uint64_t locked = 0;           // of those: pages that are locked into memory, mapped files' as well
  std::uint64_t file_bytes = 0;       // under that limit: file pages that it can drop
  std::uint64_t available = 0;        // MemAvailable of the machine
  double psi_some = 0, psi_full = 0;  // percent of the last ten seconds in which some (all) tasks waited for memory

  // What can still be taken without pushing anything but file pages out.
  std::uint64_t headroom() const {
    const std::uint64_t below_limit = limit > unreclaimable ? limit - unreclaimable : 0;
    return below_limit < available ? below_limit : available;
  }
};

class MemoryWatch {
 public:
  // `root` stands before /proc and /sys.
  explicit MemoryWatch(std::string root = "");
  MemoryWatch(MemoryWatch&&) noexcept;
  MemoryWatch& operator=(MemoryWatch&&) noexcept;
  ~MemoryWatch();

  // device_failed if not even the machine's memory can be read. Follows the process into another control group.
  Result<MemoryFacts> read();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace artesian
