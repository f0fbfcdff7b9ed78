#include "closing_line.h"

#include "base/units.h"

namespace artesian::cli {
namespace {

std::string because(const std::string& start, const std::string& reason) {
  return reason.empty() ? start : start + ": " + reason;
}

std::string active_line(const StatsSnapshot& stats) {
  const auto uses = stats.hits + stats.misses;
  std::string line;
  if (stats.tokens != 0) line = fmt::format("{} token{}: ", stats.tokens, stats.tokens == 1 ? "" : "s");
  if (uses != 0) {
    line += fmt::format("{:.1f} % hits, ", 100.0 * static_cast<double>(stats.hits) / static_cast<double>(uses));
  }
  line += fmt::format("{} read", format_bytes(stats.bytes_read));
  if (stats.read_busy_ns != 0) {
    const double seconds = static_cast<double>(stats.read_busy_ns) * 1e-9;
    line += fmt::format(" at {}", format_rate(static_cast<double>(stats.bytes_read) / seconds));
  }
  return line + fmt::format(", {:.2f} s stalled, {} of {} used", static_cast<double>(stats.stall_ns) * 1e-9,
                            format_size(stats.committed_bytes), format_size(stats.budget_bytes));
}

}  // namespace

std::string closing_line(const Result<std::vector<StatsSnapshot>>& doors) {
  if (!doors && doors.error().code == Code::not_found) {
    return "the door was not opened: the program loaded no model, or brought up no ggml that looks for backends";
  }
  if (!doors) return "what the door did is not known: " + doors.error().message;
  const StatsSnapshot stats = add_up(*doors);
  if (stats.state == "aside") return because("stepped aside", stats.reason);
  if (stats.state == "refused") return because("the door stayed shut", stats.reason);
  if (stats.state == "active") return active_line(stats);
  return because("the program ended before a model was loaded", stats.reason);
}

}  // namespace artesian::cli
