#include "bench/weights_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/units.h"
#include "bench/statistics.h"

namespace artesian::bench {

namespace {

struct Spread {
  double middle = 0, least = 0, most = 0;
};

std::optional<Spread> spread_of(std::span<const Run> runs, double (*value)(const Run&)) {
  std::vector<double> values;
  for (const Run& run : runs) {
    if (value(run) > 0) values.push_back(value(run));
  }
  if (values.empty()) return std::nullopt;
  const auto [least, most] = std::ranges::minmax(values);
  return Spread{median(values), least, most};
}

double decode_rate(const Run& run) {
  return run.timings.decode_tokens > 1 ? run.timings.decode_rate() : 0;
}
double prompt_rate(const Run& run) {
  return run.timings.prompt_rate();
}
double first_token(const Run& run) {
  return run.first_token_seconds;
}
double hit_percent(const Run& run) {
  if (!run.stats) return 0;
  const auto& decode = run.stats->decode;
  const auto uses = decode.hits + decode.misses;
  return uses == 0 ? 0 : 100 * static_cast<double>(decode.hits) / static_cast<double>(uses);
}
double megabytes_a_token(const Run& run) {
  if (!run.stats || run.stats->decode.tokens == 0) return 0;
  return static_cast<double>(run.stats->decode.bytes_read) / static_cast<double>(run.stats->decode.tokens) / 1e6;
}

std::string number(double value) {
  return fmt::format("{:.{}f}", value, value < 10 ? 2 : value < 100 ? 1 : 0);
}

std::string in_words(const std::optional<Spread>& spread) {
  if (!spread) return "-";
  if (spread->least == spread->most) return number(spread->middle);
  return fmt::format("{} ({}–{})", number(spread->middle), number(spread->least), number(spread->most));
}

struct Column {
  const char* name;
  double (*value)(const Run&);
};
constexpr Column columns[] = {{"prefill tokens/s", prompt_rate},
                              {"decode tokens/s", decode_rate},
                              {"first token s", first_token},
                              {"hits %", hit_percent},
                              {"MB a token", megabytes_a_token}};

nlohmann::json in_json(const std::optional<Spread>& spread) {
  if (!spread) return nullptr;
  return {{"median", spread->middle}, {"lowest", spread->least}, {"highest", spread->most}};
}

std::string escaped(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

}  // namespace

Result<GoalTable> weights_goals(std::span<const WeightsCase* const> cases, const Measurements& measured,
                                std::uint32_t tokens) {
  auto goals = goals_of("weights");
  if (!goals) return fail(goals.error());
  std::erase_if(*goals, [&](const Goal& goal) {
    return std::ranges::none_of(cases, [&](const WeightsCase* info) { return is_goal_of(*info, goal); });
  });
  std::vector<GoalFigure> figures;
  for (const WeightsCase* info : cases)
    std::ranges::move(info->figures(*info, measured, tokens), std::back_inserter(figures));
  return set_beside(*goals, figures);
}

std::string weights_text(const WeightsReport& report) {
  std::string text = report.machine + "\n";
  if (report.measured.bandwidth > 0) text += fmt::format("device: {}\n", format_rate(report.measured.bandwidth));
  text += "\n";
  for (const auto& [arm, result] : report.measured.arms) {
    if (result.runs.empty() && result.failure.empty()) continue;
    text += arm_text(report.settings, arm) +
            fmt::format(", {} run{}", result.runs.size(), result.runs.size() == 1 ? "" : "s");
    for (const Column& column : columns) {
      if (const auto spread = spread_of(result.runs, column.value))
        text += fmt::format("; {} {}", column.name, in_words(spread));
    }
    text += result.failure.empty() ? "\n" : "\n  failed: " + result.failure + "\n";
  }
  return text + "\n" + report.goals.text();
}

std::string weights_json(const WeightsReport& report) {
  nlohmann::json arms = nlohmann::json::array();
  for (const auto& [arm, result] : report.measured.arms) {
    nlohmann::json row = {{"what", arm_text(report.settings, arm)},
                          {"limit_bytes", arm.limit == Limit::none ? 0 : report.settings.limits.at(arm.limit)},
                          {"runs", result.runs.size()},
                          {"text_bytes", result.runs.empty() ? 0 : result.runs.front().text.size()},
                          {"failure", result.failure}};
    for (const Column& column : columns) row[column.name] = in_json(spread_of(result.runs, column.value));
    arms.push_back(std::move(row));
  }
  const nlohmann::json root = {{"machine", report.machine},
                               {"bandwidth_bytes_per_second", report.measured.bandwidth},
                               {"arms", std::move(arms)},
                               {"check", nlohmann::json::parse(report.goals.json())}};
  return root.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string weights_markdown(const WeightsReport& report) {
  std::string text = "| run, median (lowest–highest) |";
  std::string rule = "|---|";
  for (const Column& column : columns) {
    text += fmt::format(" {} |", column.name);
    rule += "---|";
  }
  text += "\n" + rule + "\n";
  for (const auto& [arm, result] : report.measured.arms) {
    text += fmt::format("| {} |", arm_text(report.settings, arm));
    for (const Column& column : columns) text += fmt::format(" {} |", in_words(spread_of(result.runs, column.value)));
    text += "\n";
  }
  text += "\n| case | figure | goal | limit | |\n|---|---|---|---|---|\n";
  const auto value = [](const std::optional<double>& figure, const std::string& unit) {
    return figure ? fmt::format("{:.2f} {}", *figure, unit) : std::string("-");
  };
  for (const GoalRow& row : report.goals.rows) {
    const Goal& goal = row.goal;
    const auto limit = row.measured.limit ? row.measured.limit : goal.limit;
    text += fmt::format("| {} | {} | {} {:g} {} | {} | {}{}{} |\n", escaped(goal.what),
                        value(row.measured.figure, goal.unit), goal.direction == Direction::at_least ? "≥" : "≤",
                        goal.goal, goal.unit, value(limit, goal.unit), row.met ? "met" : "**missed**",
                        row.measured.note.empty() ? "" : "; ", escaped(row.measured.note));
  }
  return text + fmt::format("\n{}{}\n", report.machine,
                            report.measured.bandwidth > 0 ? "; device " + format_rate(report.measured.bandwidth) : "");
}

}  // namespace artesian::bench
