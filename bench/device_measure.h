// What `artesian bench device` measures: a drive by request size and depth, through a file that is there or through a
// scratch file that has no name and so is gone whatever ends the process.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/units.h"
#include "device/file_device.h"
#include "device/sweep.h"
#include "platform/machine.h"

namespace artesian::bench {

struct DeviceBenchOptions {
  // A file or block device is read, and written only with `overwrite`. For a folder, or a name that is not there yet, a
  // scratch file in that folder is written and read.
  std::string path;
  std::uint64_t scratch_bytes = 1 * GiB;
  bool overwrite = false;                    // what the file holds is lost
  double seconds = 20;                       // for all points together; making the scratch file is not counted
  std::vector<std::uint64_t> request_bytes;  // empty: those of SweepOptions
  std::vector<std::uint32_t> depths;         // the same
  IoBackend backend = IoBackend::automatic;
  std::string version;  // of the program, for the report
  bool huge_pages = true;
  bool registered = true;
  std::function<void(double part, std::string_view what)> progress;  // part of the work done, and what is being done
  std::function<void(std::string_view)> report;                      // hears of a fallback
};

struct DeviceReport {
  std::string path;
  bool scratch = false;
  std::uint64_t file_bytes = 0;
  std::string engine;
  bool direct = false;
  bool huge_pages = false, registered = false;
  std::string placement;  // DeviceFacts::placement
  std::string version;
  MachineFacts machine;
  StorageFacts storage;
  std::vector<SweepPoint> points;
};

// Errors: invalid and not_found for what cannot be measured, rejected where there is no room or no permission,
// device_failed with file and offset for what the drive says.
Result<DeviceReport> measure_device(const DeviceBenchOptions& options, const Clock& clock);

// The point of most bytes a second; nullptr if there is none of this kind.
const SweepPoint* best_point(std::span<const SweepPoint> points, IoOp op);

std::string device_text(const DeviceReport& report);
std::string device_json(const DeviceReport& report);

}  // namespace artesian::bench
