// The store on a simulated SSD, in virtual time: KV blocks are put and read back through the unmodified engine while
// somebody else overwrites a region of the same drive at random.
//
// Not thread safe; owns everything it runs on. The same settings give the same result.
#pragma once

#include <cstdint>
#include <vector>

#include "artesian/store.h"
#include "base/result.h"
#include "nand/drive.h"
#include "nand/profile.h"

namespace artesian::sim {

struct StoreLoad {
  std::uint64_t block_bytes = 256 * 1024;
  std::uint32_t lifetimes = 4;  // classes that blocks take at random
  double region_share = 0.04;   // of the drive that takes overwrites of 4 KiB
  double region_writes = 0.4;   // of all bytes that the host writes; 0: no region
  double fill_writes = 2;       // how often the store's part is written before anything is measured
  // Then windows in which the host writes as much as the drive holds, until the last so many say on average what as
  // many before them said, within `settled`; what is measured is both of them together.
  std::uint32_t windows = 4;
  double settled = 0.001;
  std::uint32_t windows_max = 48;
  std::uint64_t seed = 1;
};

struct StoreRun {
  StoreStats store;                      // since it was opened
  std::vector<double> window_wa;         // write amplification of each window
  double write_amplification = 0;        // of the measured ones
  bool settled = false;                  // and not stopped at windows_max
  std::uint64_t host_written_bytes = 0;  // since the store was filled
  std::uint64_t trimmed_bytes = 0;
  std::uint64_t carried_bytes = 0;  // that the store copied by itself to keep blocks, since it was filled
  std::uint64_t blocks_checked = 0;
  std::uint64_t digest = 0;
  bool worn_out = false;
};

// The store fills what the region leaves of the drive. Code::corrupt when a block comes back with wrong bytes.
Result<StoreRun> run_store_on_nand(const nand::Profile& profile, const StoreLoad& load);

}  // namespace artesian::sim
