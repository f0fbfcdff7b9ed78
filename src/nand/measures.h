// What a drive does, measured on the model by running it, and what it cannot exceed, by arithmetic over its profile.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "nand/flows.h"
#include "nand/profile.h"

namespace artesian::nand {

// What limits reads of this size that are spread over all dies, and how many a second that allows.
struct Ceiling {
  double link = 0, channels = 0, dies = 0, controller = 0;  // requests a second
  double least() const;
  std::string_view limit() const;  // "link", "channels", "dies" or "controller"
};
Ceiling read_ceiling(const Profile& profile, std::uint64_t bytes);
Ceiling write_ceiling(const Profile& profile, std::uint64_t bytes);  // in order, into an empty drive

// A drive of this profile with a few superblocks of data in it, small enough to run at once, and the bytes that it
// holds.
struct Prepared {
  std::unique_ptr<Drive> drive;
  std::uint64_t bytes = 0;
};
Prepared prepared_drive(const Profile& profile);

// Reads of the data of a prepared drive, at this depth.
FlowResult run_reads(const Profile& profile, std::uint64_t bytes, Access access, std::uint32_t depth,
                     std::uint64_t requests);

// One of: read_us_4k (mean, alone), read_iops_4k (as deep as the drive takes), read_iops_4k_depthN, read_mb_128k,
// write_mb_128k, tbw (terabytes until worn, at a write amplification of 1), capacity_gain. Code::not_found for others.
Result<double> measure(const Profile& profile, std::string_view what);

}  // namespace artesian::nand
