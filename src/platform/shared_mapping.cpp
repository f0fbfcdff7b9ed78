#include "platform/shared_mapping.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

namespace artesian {

Result<SharedMapping> SharedMapping::open(const std::string& path, std::size_t bytes) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) {
    const bool wrong_path = errno == ENOENT || errno == ENOTDIR || errno == EISDIR;
    return fail(wrong_path ? Code::not_found : Code::device_failed, "{}: cannot be opened: {}", path, strerror(errno));
  }
  struct stat info{};
  int error = ::fstat(fd, &info) != 0 ? errno : 0;
  if (error == 0 && static_cast<std::uint64_t>(info.st_size) < bytes) {
    // Blocks are taken now: writing to a mapped hole of a full file system would end the process.
    error = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  }
  void* memory = MAP_FAILED;
  if (error == 0) {
    memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) error = errno;
  }
  ::close(fd);
  if (error != 0) return fail(Code::device_failed, "{}: {} bytes cannot be shared: {}", path, bytes, strerror(error));
  return SharedMapping(std::span(static_cast<std::byte*>(memory), bytes));
}

SharedMapping::SharedMapping(SharedMapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

SharedMapping& SharedMapping::operator=(SharedMapping&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMapping::~SharedMapping() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

Result<SharedFileReader> SharedFileReader::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return fail(errno == ENOENT ? Code::not_found : Code::device_failed, "{}: cannot be opened: {}", path,
                strerror(errno));
  }
  return SharedFileReader(path, fd);
}

SharedFileReader::SharedFileReader(SharedFileReader&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

SharedFileReader::~SharedFileReader() {
  if (fd_ >= 0) ::close(fd_);
}

Status SharedFileReader::read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(Code::device_failed, "{}: offset {}: {}", path_, offset, strerror(errno));
    if (got == 0) return fail(Code::corrupt, "{}: ends at offset {}, {} bytes too early", path_, offset, out.size());
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

Result<std::string> private_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return fail(Code::device_failed, "{}: cannot be created: {}", path, strerror(errno));
  }
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) return fail(Code::device_failed, "{}: {}", path, strerror(errno));
  if (!S_ISDIR(info.st_mode) || info.st_uid != ::getuid() || (info.st_mode & 0077) != 0) {
    return fail(Code::rejected, "{}: is not a folder that only its owner may use; remove it", path);
  }
  return path;
}

Result<std::string> private_runtime_folder(const std::string& xdg_runtime_dir) {
  struct stat info{};
  if (!xdg_runtime_dir.empty() && ::stat(xdg_runtime_dir.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    if (auto folder = private_folder(xdg_runtime_dir + "/artesian"); folder) return folder;
  }
  return private_folder(fmt::format("/tmp/artesian-{}", ::getuid()));
}

Result<std::vector<std::string>> list_folder(const std::string& folder) {
  const auto close = [](DIR* open) { ::closedir(open); };
  const std::unique_ptr<DIR, decltype(close)> open(::opendir(folder.c_str()));
  if (open == nullptr) return fail(Code::device_failed, "{}: cannot be listed: {}", folder, strerror(errno));
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(open.get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Status remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return fail(Code::device_failed, "{}: cannot be removed: {}", path, strerror(errno));
  }
  return {};
}

Status remove_folder(const std::string& path) {
  const auto names = list_folder(path);
  if (!names) return fail(names.error());
  for (const std::string& name : *names) {
    if (auto removed = remove_file(path + "/" + name); !removed) return removed;
  }
  if (::rmdir(path.c_str()) != 0) return fail(Code::device_failed, "{}: cannot be removed: {}", path, strerror(errno));
  return {};
}

bool file_exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

}  // namespace artesian
