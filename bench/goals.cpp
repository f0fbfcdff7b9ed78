#include "bench/goals.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/goals_json.h"

namespace artesian::bench {

namespace {

Result<Goal> parse_goal(const nlohmann::json& row, std::size_t index, std::string_view where) {
  Goal goal;
  for (const auto& [key, text] :
       {std::pair{"name", &goal.name}, {"what", &goal.what}, {"unit", &goal.unit}, {"section", &goal.section}}) {
    if (!row.is_object() || !row.contains(key) || !row[key].is_string()) {
      return fail(Code::corrupt, "{}: goal {}: {} must be a text", where, index, key);
    }
    *text = row[key].get<std::string>();
  }
  const std::string direction =
      row.value("direction", nlohmann::json()).is_string() ? row["direction"].get<std::string>() : "";
  if (direction != "at_least" && direction != "at_most") {
    return fail(Code::corrupt, "{}: goal {}: direction must be at_least or at_most", where, goal.name);
  }
  goal.direction = direction == "at_least" ? Direction::at_least : Direction::at_most;
  if (!row.contains("goal") || !row["goal"].is_number()) {
    return fail(Code::corrupt, "{}: goal {}: goal must be a number", where, goal.name);
  }
  goal.goal = row["goal"].get<double>();
  if (row.contains("limit")) {
    if (!row["limit"].is_number()) return fail(Code::corrupt, "{}: goal {}: limit must be a number", where, goal.name);
    goal.limit = row["limit"].get<double>();
  }
  return goal;
}

bool meets(const Goal& goal, const std::optional<double>& figure) {
  if (!figure || !std::isfinite(*figure)) return false;
  return goal.direction == Direction::at_least ? *figure >= goal.goal : *figure <= goal.goal;
}

std::string with_unit(const std::optional<double>& value, std::string_view unit) {
  return value ? fmt::format("{:.2f} {}", *value, unit) : std::string("-");
}

nlohmann::json or_null(const std::optional<double>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

std::optional<double> limit_of(const GoalRow& row) {
  return row.measured.limit ? row.measured.limit : row.goal.limit;
}

}  // namespace

bool is_named(std::string_view name, std::string_view wanted) {
  return name == wanted || name.starts_with(std::string(wanted) + ".");
}

Result<std::vector<Goal>> parse_goals(std::string_view json, std::string_view where) {
  const nlohmann::json root = nlohmann::json::parse(json, nullptr, false);
  if (!root.is_object() || !root.contains("goals") || !root["goals"].is_array()) {
    return fail(Code::corrupt, "{}: not a JSON object with an array \"goals\"", where);
  }
  std::vector<Goal> goals;
  std::set<std::string> names;
  for (const auto& row : root["goals"]) {
    auto goal = parse_goal(row, goals.size(), where);
    if (!goal) return fail(goal.error());
    if (!names.insert(goal->name).second) return fail(Code::corrupt, "{}: goal {} is there twice", where, goal->name);
    goals.push_back(std::move(*goal));
  }
  return goals;
}

Result<std::vector<Goal>> goals_of(std::string_view section) {
  auto goals = parse_goals(goals_json, "goals.json");
  if (goals && !section.empty()) std::erase_if(*goals, [&](const Goal& goal) { return goal.section != section; });
  return goals;
}

Result<GoalTable> set_beside(std::span<const Goal> goals, std::span<const GoalFigure> figures) {
  for (std::size_t i = 0; i < figures.size(); ++i) {
    if (std::ranges::find(goals, figures[i].name, &Goal::name) == goals.end()) {
      return fail(Code::invalid, "figure {}: no goal of that name is asked for", figures[i].name);
    }
    if (std::ranges::find(figures.first(i), figures[i].name, &GoalFigure::name) != figures.first(i).end()) {
      return fail(Code::invalid, "figure {}: given twice", figures[i].name);
    }
  }
  GoalTable table;
  for (const Goal& goal : goals) {
    GoalRow row{goal, {goal.name, {}, {}, "not measured"}, false};
    const auto found = std::ranges::find(figures, goal.name, &GoalFigure::name);
    if (found != figures.end()) row.measured = *found;
    row.met = meets(goal, row.measured.figure);
    table.rows.push_back(std::move(row));
  }
  return table;
}

bool GoalTable::all_met() const {
  return !rows.empty() && std::ranges::all_of(rows, &GoalRow::met);
}

std::string GoalTable::text() const {
  std::string out = fmt::format("{:<24}{:>12}{:>15}{:>12}\n", "", "figure", "goal", "limit");
  for (const GoalRow& row : rows) {
    const char* sign = row.goal.direction == Direction::at_least ? ">=" : "<=";
    out += fmt::format(
        "{:<24}{:>12}{:>15}{:>12}  {:<6}  {}{}{}\n", row.goal.name, with_unit(row.measured.figure, row.goal.unit),
        fmt::format("{} {:g} {}", sign, row.goal.goal, row.goal.unit), with_unit(limit_of(row), row.goal.unit),
        row.met ? "met" : "MISSED", row.goal.what, row.measured.note.empty() ? "" : "; ", row.measured.note);
  }
  return out;
}

std::string GoalTable::json() const {
  nlohmann::json list = nlohmann::json::array();
  for (const GoalRow& row : rows) {
    list.push_back({{"name", row.goal.name},
                    {"what", row.goal.what},
                    {"unit", row.goal.unit},
                    {"section", row.goal.section},
                    {"direction", row.goal.direction == Direction::at_least ? "at_least" : "at_most"},
                    {"goal", row.goal.goal},
                    {"limit", or_null(limit_of(row))},
                    {"figure", or_null(row.measured.figure)},
                    {"met", row.met},
                    {"note", row.measured.note}});
  }
  return nlohmann::json{{"all_met", all_met()}, {"goals", std::move(list)}}.dump(2);
}

}  // namespace artesian::bench
