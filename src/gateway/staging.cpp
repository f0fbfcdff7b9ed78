#include "gateway/staging.h"

#include <charconv>
#include <utility>

#include "platform/file.h"
#include "platform/process.h"
#include "platform/shared_mapping.h"

namespace artesian {
namespace {

constexpr std::string_view folder_prefix = "artesian-gateway-";
constexpr std::string_view file_prefix = "artesian-";

void remove_leftovers(const std::string& parent) {
  const auto names = list_folder(parent);
  if (!names) return;
  for (const std::string& name : *names) {
    if (!name.starts_with(folder_prefix)) continue;
    int pid = 0;
    const char* end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + folder_prefix.size(), end, pid);
    if (error != std::errc() || stop != end || process_exists(pid)) continue;
    // Somebody else's is refused here and stays.
    if (private_folder(parent + "/" + name)) static_cast<void>(remove_folder(parent + "/" + name));
  }
}

}  // namespace

Result<Staging> Staging::make(const std::string& parent, std::uint64_t bytes_max) {
  remove_leftovers(parent);
  auto folder = private_folder(fmt::format("{}/{}{}", parent, folder_prefix, own_pid()));
  if (!folder) return fail(std::move(folder.error()));
  return Staging(std::move(*folder), bytes_max, true);
}

Result<Staging> Staging::use(const std::string& folder, std::uint64_t bytes_max) {
  if (!is_folder(folder)) return fail(Code::invalid, "--slot-dir {}: is not a folder", folder);
  const auto names = list_folder(folder);
  if (!names) return fail(names.error());
  for (const std::string& name : *names) {
    if (!name.starts_with(file_prefix) || !name.ends_with(".slot")) continue;
    if (auto removed = remove_file(folder + "/" + name); !removed) return fail(std::move(removed.error()));
  }
  return Staging(folder, bytes_max, false);
}

Staging::Staging(Staging&& other) noexcept
    : folder_(std::move(other.folder_)),
      bytes_max_(other.bytes_max_),
      names_(other.names_),
      own_(std::exchange(other.own_, false)) {}

Staging::~Staging() {
  if (own_) static_cast<void>(remove_folder(folder_));
}

std::string Staging::next_name() {
  return fmt::format("{}{}-{}.slot", file_prefix, own_pid(), ++names_);
}

}  // namespace artesian
