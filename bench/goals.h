// The figures that Artesian is held to (goals.json, built into the program), and the table that sets measured ones
// beside them. A goal without a figure was not reached: a case that is skipped or forgotten counts as missed.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace artesian::bench {

enum class Direction { at_least, at_most };

struct Goal {
  std::string name;     // "moe.900.decode.bound"
  std::string what;     // one line for people
  std::string unit;     // "x", "%"
  std::string section;  // which benchmark measures it: "weights", "policy"
  Direction direction = Direction::at_least;
  double goal = 0;
  std::optional<double> limit;  // what nobody can pass, where known beforehand
};

// One measured figure; `figure` is empty and `note` says why when the case was skipped.
struct GoalFigure {
  std::string name;
  std::optional<double> figure;
  std::optional<double> limit;  // measured in this run; goes before the goal's own
  std::string note;
};

struct GoalRow {
  Goal goal;
  GoalFigure measured;
  bool met = false;
};

struct GoalTable {
  std::vector<GoalRow> rows;
  bool all_met() const;
  std::string text() const;  // one line a goal: figure, goal, limit, met or MISSED, and the note
  std::string json() const;  // {"all_met": ..., "goals": [...]}
};

// Whether `name` is `wanted` or one of its group: "moe.900.decode" of "moe" and of "moe.900".
bool is_named(std::string_view name, std::string_view wanted);

// Code::corrupt, with what is wrong and in which goal. `where` names the text in messages.
Result<std::vector<Goal>> parse_goals(std::string_view json, std::string_view where);

// Those of goals.json in this section, all for an empty one.
Result<std::vector<Goal>> goals_of(std::string_view section);

// A row for every goal, in their order. Code::invalid for a figure that no goal asks for (a misspelt name would hide a
// miss).
Result<GoalTable> set_beside(std::span<const Goal> goals, std::span<const GoalFigure> figures);

}  // namespace artesian::bench
