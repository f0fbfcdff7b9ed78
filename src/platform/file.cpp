#include "platform/file.h"

#include <fcntl.h>
#include <linux/stat.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace artesian {
namespace {

constexpr std::uint32_t page = 4096;

// O_EXCL without O_CREAT means nothing for a file; a block device that is mounted is refused by it.
int open_flags(OpenMode mode) {
  return O_CLOEXEC | (mode.write && !mode.create ? O_EXCL : 0) | (mode.write ? O_RDWR : O_RDONLY) |
         (mode.write && mode.create ? O_CREAT : 0) | (mode.direct ? O_DIRECT : 0);
}

std::unexpected<Error> open_failed(const std::string& path, OpenMode mode, int error) {
  if (mode.direct && error == EINVAL) return fail(Code::rejected, "{}: the file system refuses O_DIRECT", path);
  const bool forbidden = error == EACCES || error == EPERM || error == EROFS;
  const Code code = error == ENOENT ? Code::not_found : forbidden ? Code::rejected : Code::device_failed;
  return fail(code, "{}: {}", path, std::strerror(error));
}

// What the file system itself says; 0 if it says nothing, also where the kernel is older than the question.
std::uint32_t stated_alignment(int fd) {
  struct statx facts{};
  if (::syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &facts) != 0) return 0;
  if ((facts.stx_mask & STATX_DIOALIGN) == 0) return 0;
  return std::max(facts.stx_dio_mem_align, facts.stx_dio_offset_align);
}

}  // namespace

Result<File> File::open(const std::string& path, OpenMode mode) {
  const int fd = ::open(path.c_str(), open_flags(mode), 0600);
  if (fd < 0) return open_failed(path, mode, errno);
  return adopt(fd, path, mode.direct);
}

Result<File> File::open_unnamed(const std::string& folder) {
  const std::string name = folder + "/(unnamed)";
  int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {  // the file system, or the kernel, has no such files
    std::string path = folder + "/.artesian-XXXXXX";
    fd = ::mkostemp(path.data(), O_CLOEXEC);
    if (fd >= 0) ::unlink(path.c_str());
  }
  if (fd < 0) return open_failed(folder, {.write = true}, errno);
  return adopt(fd, name, false);
}

Result<File> File::reopen(int fd, const std::string& name, OpenMode mode) {
  mode.create = false;
  const int own = ::open(fmt::format("/proc/self/fd/{}", fd).c_str(), open_flags(mode));
  if (own < 0) return open_failed(name, mode, errno);
  return adopt(own, name, mode.direct);
}

Result<File> File::duplicate(int fd, const std::string& name) {
  const int own = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (own < 0) return open_failed(name, {}, errno);
  const int flags = ::fcntl(own, F_GETFL);
  return adopt(own, name, flags >= 0 && (flags & O_DIRECT) != 0);
}

Result<File> File::adopt(int fd, const std::string& path, bool direct) {
  File file;
  file.path_ = path;
  file.fd_ = fd;
  struct stat info{};
  if (::fstat(fd, &info) != 0) return fail(Code::device_failed, "{}: {}", path, std::strerror(errno));
  if (!S_ISREG(info.st_mode) && !S_ISBLK(info.st_mode)) {
    return fail(Code::invalid, "{}: is neither a file nor a block device", path);
  }
  if (direct) {
    if (auto probed = file.probe_direct(); !probed) return fail(std::move(probed.error()));
  }
  return file;
}

// Some file systems take the flag and refuse the read: so one is tried.
Status File::probe_direct() {
  const std::uint32_t stated = stated_alignment(fd_);
  const std::align_val_t largest{std::max(stated, page)};
  const auto give_back = [largest](void* memory) { ::operator delete(memory, largest); };
  const std::unique_ptr<void, decltype(give_back)> block(::operator new(static_cast<std::size_t>(largest), largest),
                                                         give_back);
  for (const std::uint32_t trial : {stated != 0 ? stated : 512U, std::max(stated, page)}) {
    const iovec memory{block.get(), trial};
    const std::int64_t moved = transfer(false, 0, std::span(&memory, 1));
    if (moved >= 0) {
      direct_alignment_ = trial;
      return {};
    }
    if (moved != -EINVAL) {
      return fail(Code::device_failed, "{}: offset 0: {}", path_, std::strerror(static_cast<int>(-moved)));
    }
  }
  return fail(Code::rejected, "{}: the file system refuses O_DIRECT", path_);
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      direct_alignment_(std::exchange(other.direct_alignment_, 0)),
      locked_(std::exchange(other.locked_, false)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(direct_alignment_, other.direct_alignment_);
  std::swap(locked_, other.locked_);
  return *this;
}

File::~File() {
  if (locked_) ::flock(fd_, LOCK_UN);  // a ring that is being taken down may hold the file a while longer
  if (fd_ >= 0) ::close(fd_);
}

Status File::lock(Nanos patience) {
  constexpr Nanos step = std::chrono::milliseconds(5);
  for (Nanos waited{0}; ::flock(fd_, LOCK_EX | LOCK_NB) != 0; waited += step) {
    if (errno != EWOULDBLOCK) return fail(Code::device_failed, "{}: cannot be locked: {}", path_, std::strerror(errno));
    if (waited >= patience) return fail(Code::rejected, "{}: is in use by another owner, there can be one", path_);
    ::usleep(static_cast<useconds_t>(step / std::chrono::microseconds(1)));
  }
  locked_ = true;
  return {};
}

Status File::truncate(std::uint64_t bytes) const {
  if (::ftruncate(fd_, static_cast<off_t>(bytes)) == 0) return {};
  return fail(Code::device_failed, "{}: cannot be cut to {} bytes: {}", path_, bytes, std::strerror(errno));
}

Result<bool> File::owner_only() const {
  struct stat info{};
  if (::fstat(fd_, &info) != 0) return fail(Code::device_failed, "{}: {}", path_, std::strerror(errno));
  return (info.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

bool File::block_device() const {
  struct stat facts{};
  return ::fstat(fd_, &facts) == 0 && S_ISBLK(facts.st_mode);
}

Result<std::uint64_t> File::size() const {
  struct stat facts{};
  if (::fstat(fd_, &facts) != 0) return fail(Code::device_failed, "{}: {}", path_, std::strerror(errno));
  if (!S_ISBLK(facts.st_mode)) return static_cast<std::uint64_t>(facts.st_size);
  const off_t end = ::lseek(fd_, 0, SEEK_END);  // offsets are given with every read, nobody uses the position
  if (end < 0) return fail(Code::device_failed, "{}: {}", path_, std::strerror(errno));
  return static_cast<std::uint64_t>(end);
}

std::int64_t File::transfer(bool write, std::uint64_t offset, std::span<const iovec> memory) const {
  const auto at = static_cast<off_t>(offset);
  const int count = static_cast<int>(memory.size());
  for (;;) {
    const ssize_t moved = write ? ::pwritev(fd_, memory.data(), count, at) : ::preadv(fd_, memory.data(), count, at);
    if (moved >= 0) return moved;
    if (errno != EINTR) return -errno;
  }
}

Result<std::size_t> File::read_some(std::uint64_t offset, std::span<std::byte> out) const {
  const iovec memory{out.data(), out.size()};
  const std::int64_t moved = transfer(false, offset, std::span(&memory, 1));
  if (moved >= 0) return static_cast<std::size_t>(moved);
  return fail(Code::device_failed, "{}: read at offset {}: {}", path_, offset, std::strerror(static_cast<int>(-moved)));
}

Result<std::size_t> File::write_some(std::uint64_t offset, std::span<const std::byte> bytes) const {
  const iovec memory{const_cast<std::byte*>(bytes.data()), bytes.size()};  // pwritev only reads it
  const std::int64_t moved = transfer(true, offset, std::span(&memory, 1));
  if (moved >= 0) return static_cast<std::size_t>(moved);
  return fail(Code::device_failed, "{}: write at offset {}: {}", path_, offset,
              std::strerror(static_cast<int>(-moved)));
}

Status File::read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const auto moved = read_some(offset, out);
    if (!moved) return fail(moved.error());
    if (*moved == 0) return fail(Code::corrupt, "{}: offset {}: ends {} bytes too early", path_, offset, out.size());
    out = out.subspan(*moved);
    offset += *moved;
  }
  return {};
}

Status File::write(std::uint64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const auto moved = write_some(offset, bytes);
    if (!moved) return fail(moved.error());
    if (*moved == 0) return fail(Code::device_failed, "{}: write at offset {}: nothing was taken", path_, offset);
    bytes = bytes.subspan(*moved);
    offset += *moved;
  }
  return {};
}

Status File::allocate(std::uint64_t bytes) const {
  const auto have = size();
  if (!have) return fail(have.error());
  if (bytes == 0 || ::fallocate(fd_, 0, 0, static_cast<off_t>(bytes)) == 0) return {};
  if (errno == EOPNOTSUPP && (*have >= bytes || ::ftruncate(fd_, static_cast<off_t>(bytes)) == 0)) return {};
  return fail(Code::device_failed, "{}: {} bytes cannot be allocated: {}", path_, bytes, std::strerror(errno));
}

std::int64_t File::sync_data_result() const {
  return ::fdatasync(fd_) == 0 ? 0 : -errno;
}

Status File::sync_data() const {
  const std::int64_t result = sync_data_result();
  if (result == 0) return {};
  return fail(Code::device_failed, "{}: flush: {}", path_, std::strerror(static_cast<int>(-result)));
}

Status File::punch_hole(std::uint64_t offset, std::uint64_t bytes) const {
  if (bytes == 0) return {};
  if (::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                  static_cast<off_t>(bytes)) != 0) {
    return fail(errno == EOPNOTSUPP ? Code::rejected : Code::device_failed, "{}: hole at offset {}: {}", path_, offset,
                std::strerror(errno));
  }
  return {};
}

bool is_folder(const std::string& path) {
  struct stat facts{};
  return ::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

void File::forget_cached(std::uint64_t offset, std::uint64_t bytes) const {
  ::posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
}

}  // namespace artesian
