// A Device over files of a real file system: io_uring with O_DIRECT where both are to be had, else a pool of threads,
// else the page cache (then told to forget). What it falls back to is reported once, in one sentence.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "platform/file.h"

namespace artesian {

enum class IoBackend : std::uint8_t { automatic, uring, threads };

// off: through the page cache, which keeps what was read.
enum class DirectIo : std::uint8_t { automatic, on, off };

struct FileDeviceOptions {
  std::vector<std::string> paths;
  bool write = false;
  bool create = false;                           // with write: files that are not there are made,
  std::uint64_t create_bytes = 0;                // and files shorter than this are made so long
  IoBackend backend = IoBackend::automatic;      // uring: rejected instead of falling back
  DirectIo direct = DirectIo::automatic;         // on: rejected instead of falling back
  std::uint32_t queue_depth_max = 64;            // operations at the drive at once, 1 to 4096
  std::uint32_t queue_max = 4096;                // requests waiting or in flight
  std::uint32_t thread_count = 16;               // of the thread backend
  std::uint64_t merge_bytes = 1ULL << 20;        // neighbours become one operation up to this; 0: never
  bool wakeable = false;                         // wake() is wanted
  std::function<void(std::string_view)> report;  // hears of a fallback
};

// `clock` must outlive the device.
Result<std::unique_ptr<Device>> open_file_device(const FileDeviceOptions& options, const Clock& clock);

// The same over files that are open: they are the device's from now on, just as they are open (and locked).
Result<std::unique_ptr<Device>> make_file_device(std::vector<File> files, const FileDeviceOptions& options,
                                                 const Clock& clock);

struct OpenFile {
  int fd = -1;
  std::string name;  // for messages
};

// The same over files that the caller has open; the descriptors are not kept. options.paths is not looked at. A file
// that may not be opened anew (for O_DIRECT) is used as it is open.
Result<std::unique_ptr<Device>> open_file_device_fds(std::span<const OpenFile> files, const FileDeviceOptions& options,
                                                     const Clock& clock);

}  // namespace artesian
