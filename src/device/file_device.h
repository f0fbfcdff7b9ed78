// A Device over files of a real file system: io_uring with O_DIRECT where both are to be had, else a pool of threads,
// else the page cache (then told to forget). What it falls back to is reported once, in one sentence.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"

namespace artesian {

enum class IoBackend : std::uint8_t { automatic, uring, threads };

struct FileDeviceOptions {
  std::vector<std::string> paths;
  bool write = false;
  bool create = false;
  IoBackend backend = IoBackend::automatic;
  bool direct = true;                  // false: through the page cache
  std::uint32_t queue_depth_max = 64;  // requests at the drive at once
  std::uint32_t queue_max = 4096;      // requests waiting or in flight
  std::uint32_t thread_count = 16;     // of the thread backend
  std::function<void(std::string_view)> report;
};

// `clock` must outlive the device.
Result<std::unique_ptr<Device>> open_file_device(const FileDeviceOptions& options, const Clock& clock);

}  // namespace artesian
