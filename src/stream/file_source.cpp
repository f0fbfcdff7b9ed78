#include "stream/file_source.h"

#include "platform/file.h"

namespace artesian {
namespace {

class FileSource final : public ByteSource {
 public:
  FileSource(File file, std::uint64_t bytes) : file_(std::move(file)), bytes_(bytes) {}

  const std::string& name() const override { return file_.path(); }
  std::uint64_t size() const override { return bytes_; }

  Status read(std::uint64_t offset, std::span<std::byte> out) override {
    const std::size_t wanted = out.size();
    while (!out.empty()) {
      const std::uint64_t at = offset + (wanted - out.size());
      const auto bytes = file_.read_some(at, out);
      if (!bytes) return fail(bytes.error());
      if (*bytes == 0) {
        return fail(Code::corrupt, "{}: offset {}: the file ends here, {} bytes before it should", name(), at,
                    out.size());
      }
      out = out.subspan(*bytes);
    }
    return {};
  }

 private:
  File file_;
  std::uint64_t bytes_;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> open_file_source(const std::string& path) {
  auto file = File::open(path, {});
  if (!file) return fail(std::move(file.error()));
  const auto bytes = file->size();
  if (!bytes) return fail(bytes.error());
  return std::make_unique<FileSource>(std::move(*file), *bytes);
}

}  // namespace artesian
