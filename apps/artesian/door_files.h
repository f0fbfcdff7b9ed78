// Where the door's parts are: the plugin and the shim beside this program, the stats files of what is running.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "commands.h"
#include "platform/process.h"
#include "stream/stats_file.h"

namespace artesian::cli {

struct DoorLibraries {
  std::string plugin, preload;
};

// In ../lib of the folder of this executable: the build tree and an installed tree look alike.
Result<DoorLibraries> find_door();

struct DoorSettings {
  std::uint64_t memory = 0;  // 0: found from the limit in force
  std::string mode = "auto";
  std::string eviction;  // empty: the default
  std::string stats_file;
};
// Adds to the command's environment what opens the door in it.
void open_door(const Context& context, const DoorLibraries& door, const DoorSettings& settings, Command& command);

// <runtime folder>/<pid>.stats of the `artesian run` with that number.
Result<std::string> stats_path(const Context& context, int run_pid);

struct RunningDoor {
  int run_pid = 0;
  std::string path;
};
// The doors of this user that are open now; files that dead ones left behind are removed.
Result<std::vector<RunningDoor>> running_doors(const Context& context);

}  // namespace artesian::cli
