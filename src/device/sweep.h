// Bandwidth and latency of a Device by request size and queue depth: what `artesian bench device` shows, and what
// "bandwidth" means wherever time per token is compared with the drive. Random places, multiples of the request size.
//
// Threads: the caller's, who owns the device meanwhile. Nothing but the clock handed in is read.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "device/device.h"

namespace artesian {

struct SweepPoint {
  IoOp op = IoOp::read;
  std::uint64_t request_bytes = 0;
  std::uint32_t depth = 0;  // requests outstanding
  double bytes_per_second = 0;
  double iops = 0;
  double p50_us = 0, p99_us = 0;  // from submit to completion, microseconds
  bool registered = false;        // the memory was registered with the device
};

struct SweepOptions {
  FileIndex file = 0;
  bool read = true;
  bool write = false;  // overwrites the file
  std::vector<std::uint64_t> request_bytes = {4 * KiB, 16 * KiB, 64 * KiB, 256 * KiB, 512 * KiB, 1 * MiB, 4 * MiB};
  std::vector<std::uint32_t> depths = {1, 4, 16, 32, 64};
  Nanos time_per_point = std::chrono::milliseconds(500);
  std::uint64_t bytes_per_point = 0;  // a point also ends when so much was moved; 0: by time alone
  std::uint64_t seed = 1;             // of the places
  // Where the reads land decides as much as the drive does: on a virtual drive large pages gave twice the bandwidth of
  // small ones. As it stands the sweep finds what the device can do at best. Both off is what fio does by itself.
  bool huge_pages = true;
  bool registered = true;
  std::function<void(const SweepPoint&, std::size_t done, std::size_t all)> progress;  // after each point
};

// Points that the device or the file has no room for (a depth beyond queue_depth_max, a request larger than the file)
// are left out; `invalid` if none is left. The first error of the device ends the sweep.
Result<std::vector<SweepPoint>> sweep_device(Device& device, const Clock& clock, const SweepOptions& options);

// Writes all of a file, in order, with bytes that no drive can compress or tell from each other: blocks that were never
// written are read without the drive. The size of the file is a multiple of facts().alignment. The first error of the
// device ends it.
Status fill_file(Device& device, FileIndex file, std::uint64_t seed, const std::function<void(double part)>& progress);

// Bytes per second of the best read point; 0 if there is none.
double best_read_bandwidth(std::span<const SweepPoint> points);

}  // namespace artesian
