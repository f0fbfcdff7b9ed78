// What the environment says to the plugin. settings.cpp is the one file of the plugin that reads it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "stream/plan.h"

namespace artesian::ggml {

struct Settings {
  std::optional<std::uint64_t> memory_bytes;  // ARTESIAN_MEMORY; absent: found from the limit in force
  PlanMode mode = PlanMode::automatic;        // ARTESIAN_MODE: auto, on, off
  std::string eviction;                       // ARTESIAN_EVICTION; empty: the default
  std::string stats_path;                     // ARTESIAN_STATS; empty: none
};

Settings read_settings();

}  // namespace artesian::ggml
