#include "door_files.h"

#include <charconv>

#include "platform/process.h"
#include "platform/shared_mapping.h"

namespace artesian::cli {
namespace {

constexpr std::string_view stats_suffix = ".stats";

int pid_of(std::string_view name) {
  if (!name.ends_with(stats_suffix)) return 0;
  name.remove_suffix(stats_suffix.size());
  int pid = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  return error == std::errc{} && end == name.data() + name.size() ? pid : 0;
}

}  // namespace

Result<DoorLibraries> find_door() {
  const auto self = own_executable();
  if (!self) return fail(self.error());
  const std::string bin = self->substr(0, self->rfind('/'));
  const std::string prefix = bin.substr(0, bin.rfind('/'));
  DoorLibraries door{prefix + "/lib/libggml-artesian.so", prefix + "/lib/libartesian-preload.so"};
  for (const auto* path : {&door.plugin, &door.preload}) {
    if (!file_exists(*path))
      return fail(Code::not_found, "{}: is not there; build or install artesian as a whole", *path);
  }
  return door;
}

void open_door(const Context& context, const DoorLibraries& door, const DoorSettings& settings, Command& command) {
  auto& environment = command.environment;
  environment.emplace_back("LD_PRELOAD", context.preload.empty() ? door.preload : door.preload + ":" + context.preload);
  environment.emplace_back("ARTESIAN_PLUGIN", door.plugin);
  environment.emplace_back("ARTESIAN_MODE", settings.mode);
  environment.emplace_back("ARTESIAN_STATS", settings.stats_file);
  if (settings.memory != 0) environment.emplace_back("ARTESIAN_MEMORY", std::to_string(settings.memory));
  if (!settings.eviction.empty()) environment.emplace_back("ARTESIAN_EVICTION", settings.eviction);
}

Result<std::string> stats_path(const Context& context, int run_pid) {
  const auto folder = private_runtime_folder(context.runtime_dir);
  if (!folder) return fail(folder.error());
  return fmt::format("{}/{}{}", *folder, run_pid, stats_suffix);
}

Result<std::vector<RunningDoor>> running_doors(const Context& context) {
  const auto folder = private_runtime_folder(context.runtime_dir);
  if (!folder) return fail(folder.error());
  const auto names = list_folder(*folder);
  if (!names) return fail(names.error());
  std::vector<RunningDoor> doors;
  for (const auto& name : *names) {
    const int pid = pid_of(name);
    if (pid == 0) continue;
    const std::string path = *folder + "/" + name;
    if (process_exists(pid)) {
      doors.push_back({pid, path});
    } else if (auto ok = remove_file(path); !ok) {
      return fail(ok.error());
    }
  }
  return doors;
}

}  // namespace artesian::cli
