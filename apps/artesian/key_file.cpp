#include "key_file.h"

#include <algorithm>

#include "base/units.h"
#include "platform/file.h"

namespace artesian::cli {

Result<std::vector<std::string>> read_key_file(const std::string& path) {
  const auto file = File::open(path, {});
  if (!file) return fail(file.error());
  const auto size = file->size();
  if (!size) return fail(size.error());
  std::string text(std::min<std::uint64_t>(*size, MiB), '\0');
  if (auto read = file->read(0, std::as_writable_bytes(std::span(text))); !read) return fail(std::move(read.error()));
  std::vector<std::string> keys;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) keys.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (keys.empty()) return fail(Code::invalid, "{}: holds no key; it takes one a line", path);
  return keys;
}

}  // namespace artesian::cli
