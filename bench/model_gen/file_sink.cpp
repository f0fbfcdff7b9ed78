#include "bench/model_gen/file_sink.h"

#include <cerrno>
#include <cstring>
#include <fstream>

namespace artesian {
namespace {

class FileSink final : public ByteSink {
 public:
  FileSink(std::string path, std::ofstream stream) : path_(std::move(path)), stream_(std::move(stream)) {}
  Status write(std::span<const std::byte> bytes) override {
    stream_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    stream_.flush();  // so that a full drive is told here and not in a destructor
    if (!stream_) return fail(Code::device_failed, "{}: writing failed: {}", path_, std::strerror(errno));
    return {};
  }

 private:
  std::string path_;
  std::ofstream stream_;
};

}  // namespace

Result<std::unique_ptr<ByteSink>> open_file_sink(const std::string& path) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  if (!stream) return fail(Code::device_failed, "{}: cannot be written: {}", path, std::strerror(errno));
  return std::make_unique<FileSink>(path, std::move(stream));
}

}  // namespace artesian
