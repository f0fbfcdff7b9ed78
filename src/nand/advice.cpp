#include "nand/advice.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace artesian::nand {
namespace {

// What somebody waits for: first tokens, else decoding, else reads.
double speed_of(const RunReport& report, double read_p99_us) {
  if (report.tokens && report.tokens->decoded_tokens > 0) return report.tokens->decode_rate();
  if (report.tokens && report.tokens->first_token.count() > 0)
    return 1e9 / std::max(report.tokens->first_token.mean(), 1.0);
  return 1 / std::max(read_p99_us, 1e-3);
}

AdviceRow row_of(const AdviceInput& input, const AdviceWants& wants) {
  AdviceRow row{.name = input.profile.name, .usd = input.profile.price_usd(input.profile.capacity_bytes)};
  if (row.usd <= 0) row.no.push_back("is no product");
  if (row.usd > wants.budget_usd) row.no.push_back(fmt::format("costs {:.0f} USD", row.usd));
  if (!input.report) {
    row.no.push_back(input.why_not);
    return row;
  }
  const RunReport& report = *input.report;
  Histogram reads;
  for (const FlowResult& flow : report.flows) reads.add(flow.reads);
  row.read_p99_us = static_cast<double>(reads.percentile(0.99)) * 1e-3;
  row.years = report.years;
  row.speed = speed_of(report, row.read_p99_us);
  if (report.tokens) {
    row.first_token_p50_s = seconds_of(report.tokens->first_token.percentile(0.5));
    row.first_token_p99_s = seconds_of(report.tokens->first_token.percentile(0.99));
    row.decoded_per_s = report.tokens->decode_rate();
    row.usd_per_million = report.cost().usd();
    row.joules_per_million = report.cost().joules();
  }
  const double years = wants.years > 0 ? wants.years : input.profile.service_years;
  if (report.worn_out) row.no.push_back("wears out at once");
  if (row.years < years) row.no.push_back(fmt::format("lasts {:.2g} of {:g} years", row.years, years));
  if (wants.first_token_s > 0 && row.first_token_p99_s > wants.first_token_s) {
    row.no.push_back(fmt::format("p99 of first tokens is {:.3g} s", row.first_token_p99_s));
  }
  if (wants.tokens_per_s > 0 && row.decoded_per_s < wants.tokens_per_s) {
    row.no.push_back(fmt::format("decodes {:.3g} tokens/s", row.decoded_per_s));
  }
  return row;
}

double cost_of(const AdviceRow& row) {
  return row.usd_per_million > 0 ? row.usd_per_million : row.usd;
}

std::string years_text(double years) {
  return std::isinf(years) ? "without end" : fmt::format("{:.2g} years", years);
}

std::string why_of(const Advice& advice) {
  if (!advice.best) return "no drive fits";
  const AdviceRow& best = advice.rows[*advice.best];
  const auto fit = std::ranges::count_if(advice.rows, [](const AdviceRow& row) { return row.no.empty(); });
  std::string out = fmt::format("{} fits: {:.0f} USD, lasts {}", best.name, best.usd, years_text(best.years));
  if (best.first_token_p50_s > 0) {
    out += fmt::format(", first token p50 {:.3g} s and p99 {:.3g} s", best.first_token_p50_s, best.first_token_p99_s);
  }
  if (best.decoded_per_s > 0) out += fmt::format(", {:.3g} tokens/s decoded", best.decoded_per_s);
  if (best.usd_per_million > 0) {
    out += fmt::format("; of {} that fit a million tokens cost least on it, {:.3g} USD", fit, best.usd_per_million);
  } else {
    out += fmt::format(", read p99 {:.3g} us; of {} that fit it costs least", best.read_p99_us, fit);
  }
  return out;
}

std::string next_of(const Advice& advice) {
  if (!advice.best) return {};
  if (!advice.better) return "none of the others is quicker";
  const AdviceRow &best = advice.rows[*advice.best], &next = advice.rows[*advice.better];
  std::string out = fmt::format("{} for {:.0f} USD would bring", next.name, next.usd);
  if (next.decoded_per_s > 0) {
    out += fmt::format(" {:+.1f} % tokens/s", (next.decoded_per_s / best.decoded_per_s - 1) * 100);
  }
  if (best.first_token_p50_s > 0) {
    out += fmt::format("{} first tokens {:+.1f} % (p50) and {:+.1f} % (p99) in time", next.decoded_per_s > 0 ? "," : "",
                       (next.first_token_p50_s / best.first_token_p50_s - 1) * 100,
                       (next.first_token_p99_s / best.first_token_p99_s - 1) * 100);
  } else if (next.decoded_per_s <= 0) {
    out += fmt::format(" read p99 of {:.3g} us instead of {:.3g}", next.read_p99_us, best.read_p99_us);
  }
  out += fmt::format(", and lasts {}", years_text(next.years));
  if (!next.no.empty()) out += fmt::format("; it does not fit: it {}", fmt::join(next.no, ", "));
  return out;
}

}  // namespace

Advice advise(std::span<const AdviceInput> inputs, const AdviceWants& wants) {
  Advice advice;
  for (const AdviceInput& input : inputs) advice.rows.push_back(row_of(input, wants));
  const auto& rows = advice.rows;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].no.empty() && (!advice.best || cost_of(rows[i]) < cost_of(rows[*advice.best]))) advice.best = i;
  }
  for (std::size_t i = 0; advice.best && i < rows.size(); ++i) {
    // A difference that nobody notices is none.
    if (rows[i].usd <= 0 || rows[i].speed <= rows[*advice.best].speed * 1.01) continue;
    if (!advice.better || rows[i].speed < rows[*advice.better].speed) advice.better = i;
  }
  advice.why = why_of(advice);
  advice.next = next_of(advice);
  return advice;
}

std::string advice_text(const Advice& advice) {
  std::string out = fmt::format("{:<16} {:>9} {:>8} {:>10} {:>10} {:>10} {:>10} {:>10} {:>11}\n", "", "USD", "years",
                                "first p50", "first p99", "tokens/s", "read p99", "USD per M", "J per M");
  for (const AdviceRow& row : advice.rows) {
    out += fmt::format("{:<16} {:>9.0f} {:>8} {:>9.3g}s {:>9.3g}s {:>10.4g} {:>8.4g}us {:>10.4g} {:>11.4g}  {}\n",
                       row.name, row.usd, std::isinf(row.years) ? "-" : fmt::format("{:.3g}", row.years),
                       row.first_token_p50_s, row.first_token_p99_s, row.decoded_per_s, row.read_p99_us,
                       row.usd_per_million, row.joules_per_million,
                       row.no.empty() ? "fits" : fmt::format("{}", fmt::join(row.no, ", ")));
  }
  out += fmt::format("\n{}.\n", advice.why);
  return advice.next.empty() ? out : out + fmt::format("Next better: {}.\n", advice.next);
}

std::string advice_json(const Advice& advice) {
  using Json = nlohmann::json;
  Json rows = Json::array();
  for (const AdviceRow& row : advice.rows) {
    rows.push_back({{"profile", row.name},
                    {"usd", row.usd},
                    {"years", std::isinf(row.years) ? Json() : Json(row.years)},
                    {"first_token_p50_s", row.first_token_p50_s},
                    {"first_token_p99_s", row.first_token_p99_s},
                    {"decoded_tokens_per_second", row.decoded_per_s},
                    {"read_p99_us", row.read_p99_us},
                    {"usd_per_million_tokens", row.usd_per_million},
                    {"joules_per_million_tokens", row.joules_per_million},
                    {"fits", row.no.empty()},
                    {"why_not", row.no}});
  }
  const auto name = [&](std::optional<std::size_t> index) { return index ? Json(advice.rows[*index].name) : Json(); };
  return Json({{"drives", rows},
               {"advised", name(advice.best)},
               {"why", advice.why},
               {"next_better", name(advice.better)},
               {"next_better_brings", advice.next}})
      .dump(1);
}

}  // namespace artesian::nand
