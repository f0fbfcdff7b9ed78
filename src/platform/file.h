// A file descriptor that closes itself, and the few calls on it that a device needs. Offsets and sizes in bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace artesian {

struct OpenMode {
  bool write = false;
  bool create = false;
  bool direct = false;  // O_DIRECT; Code::rejected where the file system refuses it
};

class File {
 public:
  static Result<File> open(const std::string& path, OpenMode mode);
  File() = default;
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  Result<std::uint64_t> size() const;

  // One pread or pwrite, EINTR retried; how many bytes moved (0 at the end of the file).
  Result<std::size_t> read_some(std::uint64_t offset, std::span<std::byte> out) const;
  Result<std::size_t> write_some(std::uint64_t offset, std::span<const std::byte> bytes) const;
  Status sync_data() const;
  Status punch_hole(std::uint64_t offset, std::uint64_t bytes) const;
  void forget_cached(std::uint64_t offset, std::uint64_t bytes) const;  // best effort

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace artesian
