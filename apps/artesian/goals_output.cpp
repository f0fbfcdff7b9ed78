#include "goals_output.h"

#include "commands.h"

namespace artesian::cli {

Result<int> print_beside_goals(const GoalsOutput& output, std::span<const bench::GoalFigure> figures,
                               std::string_view text, std::string_view measured_json) {
  auto goals = bench::goals_of(output.section);
  if (!goals) return fail(goals.error());
  if (output.wanted) std::erase_if(*goals, [&](const bench::Goal& goal) { return !output.wanted(goal); });
  const auto table = bench::set_beside(*goals, figures);
  if (!table) return fail(table.error());
  if (output.json) {
    fmt::print("{{\"{}\": {}, \"{}\": {}}}\n", output.measured_name, measured_json, output.goals_name, table->json());
  } else {
    fmt::print("{}\n{}", text, table->text());
  }
  return output.check && !table->all_met() ? exit_missed : exit_ok;
}

}  // namespace artesian::cli
