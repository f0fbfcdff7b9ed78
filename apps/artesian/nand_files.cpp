#include "nand_files.h"

#include <span>

#include "base/units.h"
#include "platform/file.h"

namespace artesian::cli {

Result<std::string> read_text(const std::string& path) {
  auto file = File::open(path, {});
  if (!file) return fail(file.error());
  auto size = file->size();
  if (!size) return fail(size.error());
  constexpr std::uint64_t most = 16 * MiB;
  if (*size > most) return fail(Code::invalid, "{}: {} are too much for a text", path, format_size(*size));
  std::string text(*size, '\0');
  if (auto read = file->read(0, std::as_writable_bytes(std::span(text))); !read) return fail(read.error());
  return text;
}

Result<nand::Workload> load_workload(const std::string& path) {
  const auto text = read_text(path);
  if (!text) return fail(text.error());
  return nand::parse_workload(*text, path);
}

}  // namespace artesian::cli
