// Which file it is, and whether it was changed since. Safe from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace artesian {

// Equal only for the same file with the same content, but for a change within one tick of the file system's clock.
struct FileVersion {
  std::uint64_t device = 0, inode = 0, bytes = 0;
  std::int64_t changed_ns = 0;  // of content or attributes, Unix time; nobody can set it back
};

// not_found where there is no such file, device_failed for what else the system says.
Result<FileVersion> file_version(const std::string& path);

}  // namespace artesian
