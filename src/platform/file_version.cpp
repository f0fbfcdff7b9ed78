#include "platform/file_version.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace artesian {

Result<FileVersion> file_version(const std::string& path) {
  struct stat facts{};
  if (::stat(path.c_str(), &facts) != 0) {
    return fail(errno == ENOENT ? Code::not_found : Code::device_failed, "{}: {}", path, std::strerror(errno));
  }
  return FileVersion{.device = facts.st_dev,
                     .inode = facts.st_ino,
                     .bytes = static_cast<std::uint64_t>(facts.st_size),
                     .changed_ns = facts.st_ctim.tv_sec * 1'000'000'000 + facts.st_ctim.tv_nsec};
}

}  // namespace artesian
