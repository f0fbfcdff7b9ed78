#include "stream/file_source.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>

namespace artesian {
namespace {

class FileSource final : public ByteSource {
 public:
  FileSource(std::string path, std::ifstream stream, std::uint64_t bytes)
      : path_(std::move(path)), stream_(std::move(stream)), bytes_(bytes) {}

  const std::string& name() const override { return path_; }
  std::uint64_t size() const override { return bytes_; }

  Status read(std::uint64_t offset, std::span<std::byte> out) override {
    stream_.clear();
    stream_.seekg(static_cast<std::streamoff>(offset));
    stream_.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size()));
    const auto got = static_cast<std::uint64_t>(stream_.gcount());
    if (got == out.size()) return {};
    if (stream_.eof()) {
      return fail(Code::corrupt, "{}: offset {}: the file ended after {} of {} bytes", path_, offset, got, out.size());
    }
    return fail(Code::device_failed, "{}: offset {}: reading {} bytes failed: {}", path_, offset, out.size(),
                std::strerror(errno));
  }

 private:
  std::string path_;
  std::ifstream stream_;
  std::uint64_t bytes_;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> open_file_source(const std::string& path) {
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    const int error = errno;
    const Code code = error == ENOENT || error == ENOTDIR ? Code::not_found : Code::device_failed;
    return fail(code, "{}: cannot be opened: {}", path, std::strerror(error));
  }
  stream.seekg(0, std::ios::end);
  const std::streamoff end = stream.tellg();
  // A folder opens on Linux, too; its end is not a size.
  if (!stream || end < 0 || end == std::numeric_limits<std::streamoff>::max()) {
    return fail(Code::invalid, "{}: this is not a file that can be read at offsets", path);
  }
  return std::make_unique<FileSource>(path, std::move(stream), static_cast<std::uint64_t>(end));
}

}  // namespace artesian
