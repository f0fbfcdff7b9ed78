#include "gateway/json_file.h"

#include <filesystem>

#include "base/units.h"
#include "platform/file.h"
#include "platform/shared_mapping.h"

namespace artesian {
namespace {

using nlohmann::json;

constexpr std::size_t bytes_max = 4 * MiB;

}  // namespace

json read_json_file(const std::string& path) {
  const auto file = File::open(path, {});
  const auto size = file ? file->size() : Result<std::uint64_t>(std::uint64_t{0});
  if (!size || *size == 0 || *size > bytes_max) return json::object();
  std::string text(*size, '\0');
  if (!file->read(0, std::as_writable_bytes(std::span(text)))) return json::object();
  json object = json::parse(text, nullptr, false);
  return object.is_object() ? object : json::object();
}

Status write_json_file(const std::string& path, const json& object,
                       const std::function<bool(const FileVersion& fresh)>& accept) {
  const std::string fresh = path + ".new", text = object.dump();
  const auto file = File::open(fresh, {.write = true, .create = true});
  if (!file) return fail(file.error());
  if (auto cut = file->truncate(0); !cut) return cut;
  if (auto written = file->write(0, std::as_bytes(std::span(text))); !written) return written;
  const auto version = file_version(fresh);
  if (!version) return fail(version.error());
  if (accept && !accept(*version)) return remove_file(fresh);
  std::error_code error;
  std::filesystem::rename(fresh, path, error);
  if (error) return fail(Code::device_failed, "{}: {}", path, error.message());
  return {};
}

}  // namespace artesian
