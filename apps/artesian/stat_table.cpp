#include "stat_table.h"

#include <nlohmann/json.hpp>

#include "base/units.h"

namespace artesian::cli {
namespace {

double hit_percent(std::uint64_t hits, std::uint64_t misses) {
  return hits + misses == 0 ? 0.0 : 100.0 * static_cast<double>(hits) / static_cast<double>(hits + misses);
}

std::string bandwidth(const StatsSnapshot& stats) {
  if (stats.read_busy_ns == 0) return "-";
  return format_rate(static_cast<double>(stats.bytes_read) / (static_cast<double>(stats.read_busy_ns) * 1e-9));
}

std::string layer_table(const std::vector<LayerStats>& layers) {
  std::string text = fmt::format("  {:>5} {:>9} {:>9} {:>12} {:>12} {:>12} {:>7}\n", "layer", "slots", "resident",
                                 "bytes", "hits", "misses", "hit %");
  for (const auto& layer : layers) {
    text +=
        fmt::format("  {:>5} {:>9} {:>9} {:>12} {:>12} {:>12} {:>7.1f}\n", layer.layer, layer.slots, layer.resident,
                    format_size(layer.resident_bytes), layer.hits, layer.misses, hit_percent(layer.hits, layer.misses));
  }
  return text;
}

}  // namespace

std::string stat_table(int run_pid, const Result<StatsSnapshot>& stats) {
  if (!stats) return fmt::format("run {}: {}\n", run_pid, stats.error().message);
  std::string text = fmt::format("process {} (run {}): {}{}{}\n", stats->pid, run_pid, stats->state,
                                 stats->reason.empty() ? "" : ": ", stats->reason);
  text += fmt::format("  {}, {}\n", stats->model.empty() ? "no model yet" : stats->model,
                      stats->engine.empty() ? "engine not known" : stats->engine);
  text += fmt::format("  budget {}, taken {}, weights resident {}\n", format_size(stats->budget_bytes),
                      format_size(stats->committed_bytes), format_size(stats->resident_bytes));
  text += fmt::format("  {} tokens, {} hits, {} misses ({:.1f} % hits)\n", stats->tokens, stats->hits, stats->misses,
                      hit_percent(stats->hits, stats->misses));
  text += fmt::format("  {} read at {}, {} in vain, queue depth {}\n", format_bytes(stats->bytes_read),
                      bandwidth(*stats), format_bytes(stats->bytes_wasted), stats->queue_depth);
  text += fmt::format("  {:.2f} s stalled, {:.2f} s computing\n", static_cast<double>(stats->stall_ns) * 1e-9,
                      static_cast<double>(stats->compute_ns) * 1e-9);
  const auto& guesses = stats->speculation;
  if (guesses.issued != 0) {
    text += fmt::format("  read ahead: {} issued, {} useful, {} late\n", guesses.issued, guesses.useful, guesses.late);
  }
  if (!stats->layers.empty()) text += layer_table(stats->layers);
  return text;
}

std::string stat_json(int run_pid, const Result<StatsSnapshot>& stats) {
  nlohmann::json object;
  if (stats) {
    object = nlohmann::json::parse(stats_to_json(*stats), nullptr, false);
  } else {
    object["error"] = stats.error().message;
  }
  object["run_pid"] = run_pid;
  return object.dump();
}

}  // namespace artesian::cli
