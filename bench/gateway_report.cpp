// How the figures of `artesian bench gateway` are said.
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "bench/gateway_measure.h"
#include "bench/statistics.h"

namespace artesian::bench {

namespace {

struct Row {
  std::string model, what, value;
};

std::string time_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.0f} ms", 1000 * seconds) : fmt::format("{:.2f} s", seconds);
}

std::string spread(const std::vector<double>& seconds) {
  if (seconds.empty()) return "-";
  if (seconds.size() == 1) return time_text(seconds.front());
  const auto [least, most] = std::ranges::minmax(seconds);
  return fmt::format("{} ({}–{})", time_text(median(seconds)), time_text(least), time_text(most));
}

// The drive's read and the server's own work, round by round.
std::vector<double> bound_of(const RestartFigures& figures) {
  std::vector<double> bound;
  for (std::size_t i = 0; i < std::min(figures.read.size(), figures.server.size()); ++i) {
    bound.push_back(figures.read[i] + figures.server[i]);
  }
  return bound;
}

// The median over pairs of what a pair gives.
std::optional<double> median_of_pairs(const std::vector<double>& direct, const std::vector<double>& through,
                                      double (*of_pair)(double direct, double through)) {
  std::vector<double> values;
  std::ranges::transform(direct, through, std::back_inserter(values), of_pair);
  return values.empty() ? std::nullopt : std::optional(median(std::move(values)));
}

// How much more the second takes than the first: in percent of it, and in milliseconds.
double more(double direct, double through) {
  return 100 * (through / direct - 1);
}
double later(double direct, double through) {
  return 1000 * (through - direct);
}

void add_restart(const std::string& model, const RestartFigures& figures, std::vector<Row>& rows) {
  const auto add = [&](std::string what, std::string value) {
    rows.push_back({model, std::move(what), std::move(value)});
  };
  add(fmt::format("first token, {} of {} tokens restored", figures.restored_tokens, figures.prompt_tokens),
      spread(figures.gateway));
  add("of that, until they are in the slot", spread(figures.restore));
  add(fmt::format("reading {} from the drive, nothing else", format_bytes(figures.file_bytes)), spread(figures.read));
  add("the server's own restore from memory, and its first token", spread(figures.server));
  add("of that, the first token", spread(figures.server_first));
  add("first token, computed", time_text(figures.computed));
  if (figures.hearth.empty()) return;
  add("first token of the next question", spread(figures.goes_on));
  add("the same behind hearth", spread(figures.hearth));
}

void add_shared(const std::string& model, const SharedFigures& figures, std::vector<Row>& rows) {
  const auto add = [&](std::string what, std::string value) {
    rows.push_back({model, std::move(what), std::move(value)});
  };
  add(fmt::format("another conversation: {} of its {} tokens shared; computed", figures.shared_tokens,
                  figures.prompt_tokens),
      fmt::format("{} tokens, {}", figures.computed_tokens, time_text(figures.gateway)));
  if (figures.hearth) {
    add("the same behind hearth", fmt::format("{} tokens, {}", figures.hearth_computed, time_text(*figures.hearth)));
  }
}

void add_busy(const std::string& model, const GatewayModelFigures& figures, std::vector<Row>& rows) {
  const auto add = [&](std::string what, std::string value) {
    rows.push_back({model, std::move(what), std::move(value)});
  };
  if (figures.miss) {
    const MissFigures& miss = *figures.miss;
    add("a miss below 500 tokens, directly", spread(miss.short_direct));
    add("the same through the gateway", spread(miss.short_gateway));
    add("a miss of 2,000 tokens, directly", spread(miss.long_direct));
    add("the same through the gateway", spread(miss.long_gateway));
    add("requests of one client, directly", spread(miss.one_direct));
    add("the same through the gateway", spread(miss.one_gateway));
    add("requests of 16 clients, directly", spread(miss.many_direct));
    add("the same through the gateway", spread(miss.many_gateway));
  }
  if (figures.save) {
    add("a short request's first token", spread(figures.save->alone));
    add("the same while a long conversation is saved", spread(figures.save->beside));
    add("the longest that the server stood still to save; with a full context",
        time_text(figures.save->pause_max) + "; " + time_text(figures.save->worst));
  }
}

std::vector<Row> rows_of(const GatewayReport& report) {
  std::vector<Row> rows;
  for (const auto& [model, figures] : report.models) {
    if (figures.restart) add_restart(model, *figures.restart, rows);
    if (figures.shared) add_shared(model, *figures.shared, rows);
    if (const auto& storage = figures.storage) {
      rows.push_back({model,
                      fmt::format("{} conversations, {} tokens shared and {} their own; stored", storage->conversations,
                                  storage->shared_tokens, storage->own_tokens),
                      fmt::format("{} tokens, {}", storage->stored_tokens, format_bytes(storage->stored_bytes))});
    }
    add_busy(model, figures, rows);
  }
  return rows;
}

nlohmann::json in_json(const GatewayModelFigures& figures) {
  nlohmann::json all{{"texts_compared", figures.texts}, {"texts_wrong", figures.wrong}};
  if (const auto& restart = figures.restart) {
    all["restart"] = {{"prompt_tokens", restart->prompt_tokens},
                      {"restored_tokens", restart->restored_tokens},
                      {"file_bytes", restart->file_bytes},
                      {"computed_seconds", restart->computed},
                      {"gateway_seconds", restart->gateway},
                      {"restore_seconds", restart->restore},
                      {"read_seconds", restart->read},
                      {"server_seconds", restart->server},
                      {"server_first_seconds", restart->server_first},
                      {"goes_on_seconds", restart->goes_on},
                      {"hearth_seconds", restart->hearth}};
  }
  if (const auto& shared = figures.shared) {
    all["shared"] = {{"prompt_tokens", shared->prompt_tokens},
                     {"shared_tokens", shared->shared_tokens},
                     {"computed_tokens", shared->computed_tokens},
                     {"gateway_seconds", shared->gateway},
                     {"hearth_computed_tokens", shared->hearth_computed},
                     {"hearth_seconds", shared->hearth ? nlohmann::json(*shared->hearth) : nlohmann::json()}};
  }
  if (const auto& storage = figures.storage) {
    all["storage"] = {{"conversations", storage->conversations},
                      {"shared_tokens", storage->shared_tokens},
                      {"own_tokens", storage->own_tokens},
                      {"stored_tokens", storage->stored_tokens},
                      {"stored_bytes", storage->stored_bytes}};
  }
  if (const auto& miss = figures.miss) {
    all["miss"] = {{"short_direct_seconds", miss->short_direct}, {"short_gateway_seconds", miss->short_gateway},
                   {"long_direct_seconds", miss->long_direct},   {"long_gateway_seconds", miss->long_gateway},
                   {"one_direct_seconds", miss->one_direct},     {"one_gateway_seconds", miss->one_gateway},
                   {"many_direct_seconds", miss->many_direct},   {"many_gateway_seconds", miss->many_gateway}};
  }
  if (const auto& save = figures.save) {
    all["save"] = {{"alone_seconds", save->alone},
                   {"beside_seconds", save->beside},
                   {"pause_max_seconds", save->pause_max},
                   {"pause_worst_seconds", save->worst}};
  }
  return all;
}

void add_figures(const std::string& model, const GatewayModelFigures& figures, const std::string& no_hearth,
                 std::vector<GoalFigure>& all) {
  const auto add = [&](const std::string& name, std::optional<double> figure, std::string note = {}) {
    all.push_back({.name = "gateway." + model + "." + name, .figure = figure, .limit = {}, .note = std::move(note)});
  };
  if (const auto& restart = figures.restart) {
    add("restart.bound", median_or_0(restart->gateway) / median_or_0(bound_of(*restart)));
    add("restart.computed", restart->computed / median_or_0(restart->gateway));
    add("restart.hearth",
        restart->hearth.empty() ? std::nullopt
                                : std::optional(median_or_0(restart->hearth) / median_or_0(restart->goes_on)),
        no_hearth);
    add("restart.wrong", static_cast<double>(figures.wrong), fmt::format("of {} texts", figures.texts));
  }
  if (const auto& shared = figures.shared) {
    add("shared.computed", static_cast<double>(shared->computed_tokens) /
                               static_cast<double>(shared->prompt_tokens - shared->shared_tokens));
    add("shared.hearth", shared->hearth ? std::optional(*shared->hearth / shared->gateway) : std::nullopt,
        no_hearth.empty() ? fmt::format("hearth computes {} tokens: it keeps whole messages of whole conversations",
                                        shared->hearth_computed)
                          : no_hearth);
  }
  if (const auto& storage = figures.storage) {
    add("storage", static_cast<double>(storage->stored_tokens) /
                       static_cast<double>(storage->shared_tokens + storage->own_tokens));
  }
  if (const auto& miss = figures.miss) {
    add("miss.short", median_of_pairs(miss->short_direct, miss->short_gateway, later));
    add("miss.long", median_of_pairs(miss->long_direct, miss->long_gateway, more));
    add("miss.clients1", median_of_pairs(miss->one_direct, miss->one_gateway, more));
    add("miss.clients16", median_of_pairs(miss->many_direct, miss->many_gateway, more));
  }
  if (const auto& save = figures.save) {
    add("save.delay", 1000 * (median_or_0(save->beside) - median_or_0(save->alone)),
        fmt::format("with a full context at worst {:.0f} ms", 1000 * save->worst));
  }
}

}  // namespace

std::string gateway_text(const GatewayReport& report) {
  std::string text = report.machine + "\n";
  if (!report.hearth.empty()) text += report.hearth + "\n";
  text += "\n";
  for (const Row& row : rows_of(report)) text += fmt::format("{:<8}{:<72}{}\n", row.model, row.what, row.value);
  return text;
}

std::string gateway_markdown(const GatewayReport& report) {
  std::string text = "| model | what, median (lowest–highest) | |\n|---|---|---|\n";
  for (const Row& row : rows_of(report)) text += fmt::format("| {} | {} | {} |\n", row.model, row.what, row.value);
  return text + fmt::format("\n{}\n", report.machine);
}

std::string gateway_json(const GatewayReport& report) {
  nlohmann::json models = nlohmann::json::object();
  for (const auto& [model, figures] : report.models) models[model] = in_json(figures);
  return nlohmann::json{{"machine", report.machine}, {"hearth", report.hearth}, {"models", models}}.dump();
}

std::vector<GoalFigure> gateway_figures(const GatewayReport& report) {
  std::vector<GoalFigure> all;
  for (const auto& [model, figures] : report.models) add_figures(model, figures, report.hearth, all);
  return all;
}

}  // namespace artesian::bench
