#include "platform/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace artesian {

Result<File> File::open(const std::string& path, OpenMode mode) {
  int flags = O_CLOEXEC | (mode.write ? O_RDWR : O_RDONLY);
  if (mode.create) flags |= O_CREAT;
  if (mode.direct) flags |= O_DIRECT;
  File file;
  file.path_ = path;
  file.fd_ = ::open(path.c_str(), flags, 0600);
  if (file.fd_ < 0) {
    const int error = errno;
    if (mode.direct && error == EINVAL) return fail(Code::rejected, "{}: the file system refuses O_DIRECT", path);
    return fail(error == ENOENT ? Code::not_found : Code::device_failed, "{}: {}", path, std::strerror(error));
  }
  return file;
}

File::File(File&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::uint64_t> File::size() const {
  struct stat facts{};
  if (::fstat(fd_, &facts) != 0) return fail(Code::device_failed, "{}: {}", path_, std::strerror(errno));
  return static_cast<std::uint64_t>(facts.st_size);
}

Result<std::size_t> File::read_some(std::uint64_t offset, std::span<std::byte> out) const {
  for (;;) {
    const ssize_t moved = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (moved >= 0) return static_cast<std::size_t>(moved);
    if (errno != EINTR) {
      return fail(Code::device_failed, "{}: read at offset {}: {}", path_, offset, std::strerror(errno));
    }
  }
}

Result<std::size_t> File::write_some(std::uint64_t offset, std::span<const std::byte> bytes) const {
  for (;;) {
    const ssize_t moved = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (moved >= 0) return static_cast<std::size_t>(moved);
    if (errno != EINTR) {
      return fail(Code::device_failed, "{}: write at offset {}: {}", path_, offset, std::strerror(errno));
    }
  }
}

Status File::sync_data() const {
  if (::fdatasync(fd_) != 0) return fail(Code::device_failed, "{}: {}", path_, std::strerror(errno));
  return {};
}

Status File::punch_hole(std::uint64_t offset, std::uint64_t bytes) const {
  if (::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                  static_cast<off_t>(bytes)) != 0) {
    return fail(Code::device_failed, "{}: hole at offset {}: {}", path_, offset, std::strerror(errno));
  }
  return {};
}

void File::forget_cached(std::uint64_t offset, std::uint64_t bytes) const {
  ::posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
}

}  // namespace artesian
