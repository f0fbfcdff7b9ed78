// The store on a simulated SSD, in virtual time: KV blocks are put and read back through the unmodified engine while
// somebody else overwrites a region of the same drive at random.
//
// Not thread safe; owns everything it runs on. The same settings give the same result.
#pragma once

#include <cstdint>

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
  double drive_writes = 3;      // how often the drive is written before it is measured, and again after that
  std::uint64_t seed = 1;
};

struct StoreRun {
  StoreStats store;           // since it was opened
  nand::DriveCounters drive;  // of the measured part, as is `carried_bytes`
  nand::FdpStatistics fdp;
  std::uint64_t carried_bytes = 0;  // that the store copied by itself to keep blocks
  std::uint64_t blocks_checked = 0;
  std::uint64_t digest = 0;
  bool worn_out = false;
};

// The store fills what the region leaves of the drive. Code::corrupt when a block comes back with wrong bytes.
Result<StoreRun> run_store_on_nand(const nand::Profile& profile, const StoreLoad& load);

}  // namespace artesian::sim
