// The report of `artesian inspect` for people and for programs.
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "stream/inspect.h"

namespace artesian {
namespace {

using nlohmann::json;

// "0-3, 6".
std::string ranges(const std::vector<std::uint32_t>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (!text.empty()) text += ", ";
    text += end - i == 1 ? std::to_string(numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[end - 1]);
    i = end;
  }
  return text;
}

std::string alignment_text(std::uint32_t alignment) {
  return alignment == 0 ? "not of whole sectors" : fmt::format("a multiple of {}", alignment);
}

// A file's own words without control characters, which a terminal would obey.
std::string tame(std::string text) {
  std::erase_if(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  return text;
}

std::string head_text(const InspectReport& report) {
  const GgufFacts& facts = report.facts;
  std::string text =
      fmt::format("{}: {}{}, {} layers, width {}", report.paths.front(),
                  facts.architecture.empty() ? "unknown architecture" : tame(facts.architecture),
                  facts.name.empty() ? "" : " \"" + tame(facts.name) + "\"", facts.block_count, facts.embedding_length);
  if (facts.expert_count > 0) text += fmt::format(", {} experts, {} used", facts.expert_count, facts.expert_used_count);
  text += fmt::format("\n{} in {} tensors, {} {}: {} experts, {} all else\n", format_bytes(report.total_bytes),
                      report.tensors, report.paths.size(), report.paths.size() == 1 ? "file" : "files",
                      format_bytes(report.expert_bytes), format_bytes(report.dense_bytes));
  return text;
}

std::string layers_text(const InspectReport& report) {
  if (report.layers.empty()) return {};
  std::string text = "\nexperts\n";
  for (const InspectLayers& row : report.layers) {
    text +=
        fmt::format("  layers {}: {} experts of {}\n", ranges(row.layers), row.experts, format_bytes(row.expert_bytes));
    for (const InspectPart& part : row.parts) {
      text += fmt::format("    {:15} {:8} {:>10} a slice, {}\n", part.name, part.type, format_bytes(part.slice_bytes),
                          alignment_text(part.alignment));
    }
  }
  return text;
}

std::string costs_text(const InspectReport& report) {
  if (report.budget_min_bytes == 0) return {};
  std::string token = format_bytes(report.token_bytes);
  if (report.token_expert_bytes > 0)
    token += fmt::format(", {} of it experts", format_bytes(report.token_expert_bytes));
  return fmt::format("\n{:40}{}\n{:40}{}\n{:40}{}\n", "read for a token if nothing is resident", token,
                     "smallest budget that works", format_size(report.budget_min_bytes),
                     "below this a plain LRU hits nothing", format_size(report.lru_cliff_bytes));
}

std::string rate_text(const InspectReport& report, const InspectBudget& row) {
  if (!row.works) return "too small";
  if (!row.streams) return "all in memory";
  if (row.bytes_per_token <= 0) return "nothing read once warm";
  if (report.bandwidth <= 0) return "-";
  return fmt::format("{:.1f}", row.tokens_per_second);
}

std::string budgets_text(const InspectReport& report) {
  std::string text = fmt::format("\nwhat budgets for weights should give, {}\n",
                                 report.bandwidth > 0 ? "the device reading " + format_rate(report.bandwidth)
                                                      : std::string("the device not measured"));
  text += fmt::format("  {:>12} {:>9} {:>9} {:>12}  {}\n", "budget", "resident", "hit rate", "read/token",
                      "tokens/s at most");
  for (const InspectBudget& row : report.budgets) {
    text += fmt::format("  {:>12} {:>8.0f}% {:>8.0f}% {:>12}  {}\n", format_size(row.budget_bytes), 100 * row.resident,
                        100 * row.hit_rate, format_bytes(static_cast<std::uint64_t>(row.bytes_per_token)),
                        rate_text(report, row));
  }
  if (report.expert_bytes > 0) {
    text += "  hit rates as if all experts were equally likely; real routing is skewed and hits more often\n";
  }
  return text;
}

json layers_json(const InspectReport& report) {
  json out = json::array();
  for (const InspectLayers& row : report.layers) {
    json parts = json::array();
    for (const InspectPart& part : row.parts) {
      parts.push_back(
          {{"part", part.name}, {"type", part.type}, {"slice_bytes", part.slice_bytes}, {"alignment", part.alignment}});
    }
    out.push_back(
        {{"layers", row.layers}, {"experts", row.experts}, {"expert_bytes", row.expert_bytes}, {"parts", parts}});
  }
  return out;
}

json budgets_json(const InspectReport& report) {
  json out = json::array();
  for (const InspectBudget& row : report.budgets) {
    out.push_back({{"budget_bytes", row.budget_bytes},
                   {"works", row.works},
                   {"streams", row.streams},
                   {"resident", row.resident},
                   {"hit_rate_uniform", row.hit_rate},
                   {"bytes_per_token", row.bytes_per_token},
                   {"tokens_per_second_max", row.tokens_per_second}});
  }
  return out;
}

}  // namespace

std::string to_text(const InspectReport& report) {
  std::string text = head_text(report) + layers_text(report) + costs_text(report) + budgets_text(report);
  if (!report.warnings.empty()) text += "\nto know\n";
  for (const std::string& warning : report.warnings) text += "  " + warning + "\n";
  return text;
}

std::string to_json_text(const InspectReport& report) {
  const GgufFacts& facts = report.facts;
  const json out = {{"paths", report.paths},
                    {"architecture", facts.architecture},
                    {"name", facts.name},
                    {"block_count", facts.block_count},
                    {"embedding_length", facts.embedding_length},
                    {"context_length", facts.context_length},
                    {"expert_count", facts.expert_count},
                    {"expert_used_count", facts.expert_used_count},
                    {"tensors", report.tensors},
                    {"total_bytes", report.total_bytes},
                    {"expert_bytes", report.expert_bytes},
                    {"dense_bytes", report.dense_bytes},
                    {"token_bytes", report.token_bytes},
                    {"token_expert_bytes", report.token_expert_bytes},
                    {"budget_min_bytes", report.budget_min_bytes},
                    {"lru_cliff_bytes", report.lru_cliff_bytes},
                    {"bandwidth", report.bandwidth},
                    {"layers", layers_json(report)},
                    {"budgets", budgets_json(report)},
                    {"warnings", report.warnings}};
  return out.dump(2, ' ', false, json::error_handler_t::replace);
}

}  // namespace artesian
