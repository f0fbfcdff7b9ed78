// Walks a GGUF header in buffered reads and refuses to look past the end of the file or the limit of a header.
// Inside format/ only. Not thread safe; borrows the source.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "format/gguf.h"

namespace artesian {

// Text from a hostile file, made fit for a message: printable, short.
std::string printable(std::string_view text);

class GgufScanner {
 public:
  explicit GgufScanner(ByteSource& source) : source_(source), end_(source.size()) {}

  std::uint64_t offset() const { return offset_; }
  std::uint64_t file_bytes() const { return end_; }
  std::uint64_t remaining() const { return end_ - offset_; }

  // Code::corrupt with file and offset: `broken(at, "tensor {} ...", name)`.
  template <typename... Args>
  std::unexpected<Error> broken(std::uint64_t at, fmt::format_string<Args...> format, Args&&... args) const {
    return fail(Code::corrupt, "{}: offset {}: {}", source_.name(), at,
                fmt::format(format, std::forward<Args>(args)...));
  }

  // `what` names the thing for the message: "the key of metadata entry 3".
  template <typename T>
  Result<T> number(std::string_view what) {
    T value{};
    if (auto read = take(std::as_writable_bytes(std::span(&value, 1)), what); !read)
      return fail(std::move(read.error()));
    return value;
  }

  Result<std::string> string(std::uint64_t bytes_max, std::string_view what);
  Status skip(std::uint64_t bytes, std::string_view what);
  Status skip_strings(std::uint64_t count, std::string_view what);

 private:
  Status check(std::uint64_t bytes, std::string_view what) const;
  Status take(std::span<std::byte> out, std::string_view what);
  Status fill();

  static constexpr std::size_t chunk_bytes = 256 * 1024;

  ByteSource& source_;
  std::uint64_t end_;
  std::uint64_t offset_ = 0;
  std::vector<std::byte> chunk_;
  std::uint64_t chunk_offset_ = 0;
};

}  // namespace artesian
