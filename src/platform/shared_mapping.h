// A small file that two processes have in memory at once: one writes it, others read. Also the private folder in which
// such files are kept while their owners live.
//
// Ownership: a SharedMapping unmaps when it goes; the file stays. Threads: the bytes are shared memory, whoever uses
// them orders the accesses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace artesian {

class SharedMapping {
 public:
  // The file is created if it is not there (mode 0600) and made at least `bytes` long; what it holds stays.
  static Result<SharedMapping> open(const std::string& path, std::size_t bytes);

  SharedMapping(SharedMapping&& other) noexcept;
  SharedMapping& operator=(SharedMapping&& other) noexcept;
  ~SharedMapping();

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  explicit SharedMapping(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes_;
};

// Reads of such a file without mapping it: it may be truncated by anybody at any time.
class SharedFileReader {
 public:
  static Result<SharedFileReader> open(const std::string& path);
  SharedFileReader(SharedFileReader&& other) noexcept;
  SharedFileReader& operator=(SharedFileReader&&) = delete;
  ~SharedFileReader();

  Status read(std::uint64_t offset, std::span<std::byte> out) const;  // all of `out` or an error

 private:
  SharedFileReader(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_ = -1;
};

// `xdg_runtime_dir`/artesian, or /tmp/artesian-<uid> where that is empty or not there; made with mode 0700. Refused if
// the folder is somebody else's or others may write to it.
Result<std::string> private_runtime_folder(const std::string& xdg_runtime_dir);

// This folder, made with mode 0700 if it is not there; refused if it is somebody else's or others may use it.
Result<std::string> private_folder(const std::string& path);
// With all files in it; not with folders.
Status remove_folder(const std::string& path);

// Names of the files in a folder, sorted.
Result<std::vector<std::string>> list_folder(const std::string& folder);
Status remove_file(const std::string& path);
bool file_exists(const std::string& path);

}  // namespace artesian
