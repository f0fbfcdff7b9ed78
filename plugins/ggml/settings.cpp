#include "settings.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/units.h"

namespace artesian::ggml {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

Settings read_settings() {
  Settings settings;
  if (const std::string_view memory = variable("ARTESIAN_MEMORY"); !memory.empty()) {
    if (const auto bytes = parse_size(memory)) {
      settings.memory_bytes = *bytes;
    } else {
      std::fprintf(stderr, "artesian: ARTESIAN_MEMORY: %s; it is found from the memory limit instead\n",
                   bytes.error().message.c_str());
    }
  }
  const std::string_view mode = variable("ARTESIAN_MODE");
  if (mode == "on") settings.mode = PlanMode::on;
  if (mode == "off") settings.mode = PlanMode::off;
  settings.eviction = variable("ARTESIAN_EVICTION");
  settings.stats_path = variable("ARTESIAN_STATS");
  return settings;
}

}  // namespace artesian::ggml
