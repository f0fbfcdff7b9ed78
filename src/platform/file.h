// An open file, read and written at offsets, through the page cache or past it (O_DIRECT). Offsets and sizes in bytes.
//
// Ownership: a File closes its descriptor when it goes; move only. Threads: all calls are safe from any thread.
// Errors carry path, offset and the system's own words.
#pragma once

#include <sys/uio.h>  // iovec: the pieces of memory of one transfer; others get it from here

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace artesian {

struct OpenMode {
  bool write = false;
  bool create = false;  // with write: made if it is not there
  bool direct = false;  // O_DIRECT; Code::rejected where the file system refuses it
};

class File {
 public:
  // not_found, rejected (no permission; no O_DIRECT), invalid (neither a file nor a block device) or device_failed.
  static Result<File> open(const std::string& path, OpenMode mode);
  // A new file in this folder that has no name: gone when its last descriptor is closed, whatever ends the process.
  static Result<File> open_unnamed(const std::string& folder);
  // The file behind a descriptor that somebody else keeps open, opened anew; `name` is for messages.
  static Result<File> reopen(int fd, const std::string& name, OpenMode mode);
  // A second descriptor of the same opening, for where reopening is refused; its mode is that of the opening.
  static Result<File> duplicate(int fd, const std::string& name);

  File() = default;
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  bool direct() const { return direct_alignment_ != 0; }
  // Open with O_DIRECT: what offsets, sizes and addresses must be multiples of, as the file system says or a trial
  // shows. 0 without.
  std::uint32_t direct_alignment() const { return direct_alignment_; }
  bool block_device() const;
  Result<bool> owner_only() const;     // nobody but its owner may read or write it
  Result<std::uint64_t> size() const;  // of a file or a block device, now

  // One pread or pwrite, EINTR retried; how many bytes moved (0 at the end of the file).
  Result<std::size_t> read_some(std::uint64_t offset, std::span<std::byte> out) const;
  Result<std::size_t> write_some(std::uint64_t offset, std::span<const std::byte> bytes) const;
  // All of it, or an error: corrupt if the file ends before.
  Status read(std::uint64_t offset, std::span<std::byte> out) const;
  Status write(std::uint64_t offset, std::span<const std::byte> bytes) const;
  // One preadv or pwritev: bytes moved, or -errno, as io_uring answers.
  std::int64_t transfer(bool write, std::uint64_t offset, std::span<const iovec> memory) const;

  // The only lock of the file, until this File goes; after a kill until the last I/O of the process has ended, too. So
  // a lock that another one has is waited for, `patience` long, before it is rejected.
  Status lock(Nanos patience);
  Status truncate(std::uint64_t bytes) const;
  // At least that long; blocks are taken now where the file system can, so that it cannot be full later.
  Status allocate(std::uint64_t bytes) const;
  Status sync_data() const;
  std::int64_t sync_data_result() const;                                // 0 or -errno, as io_uring answers
  Status punch_hole(std::uint64_t offset, std::uint64_t bytes) const;   // rejected where holes are not known
  void forget_cached(std::uint64_t offset, std::uint64_t bytes) const;  // best effort

 private:
  static Result<File> adopt(int fd, const std::string& path, bool direct);
  Status probe_direct();

  std::string path_;
  int fd_ = -1;
  std::uint32_t direct_alignment_ = 0;
  bool locked_ = false;
};

bool is_folder(const std::string& path);

}  // namespace artesian
