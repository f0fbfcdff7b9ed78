// One page with plots, of nothing but itself: styles and figures are in it, nothing is fetched.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "base/units.h"
#include "nand/workload.h"

namespace artesian::nand {
namespace {

constexpr double width = 640, height = 220, left = 64, bottom = 28, top = 10, right = 12;
constexpr std::array colors{"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf"};

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;
};

// A figure that is pleasant to read, not below `value`.
double rounded_up(double value) {
  if (value <= 0) return 1;
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double step : {1.0, 2.0, 2.5, 5.0}) {
    if (step * power >= value) return step * power;
  }
  return 10 * power;
}

std::string axes(double x_most, double y_most, std::string_view x_name) {
  std::string out = fmt::format("<path d='M{} {}V{}H{}' class='axis'/>", left, top, height - bottom, width - right);
  for (int i = 0; i <= 4; ++i) {
    const double y = height - bottom - (height - bottom - top) * i / 4;
    out += fmt::format("<path d='M{0} {1:.1f}H{2}' class='grid'/><text x='{3}' y='{4:.1f}' class='y'>{5:.3g}</text>",
                       left, y, width - right, left - 6, y + 4, y_most * i / 4);
    const double x = left + (width - right - left) * i / 4;
    out += fmt::format("<text x='{:.1f}' y='{}' class='x'>{:.3g}</text>", x, height - bottom + 16, x_most * i / 4);
  }
  return out + fmt::format("<text x='{}' y='{}' class='x'>{}</text>", (left + width) / 2, height - 1, escaped(x_name));
}

std::string line_plot(std::string_view title, std::string_view x_name, const std::vector<Series>& series) {
  double x_most = 0, y_most = 0;
  for (const Series& one : series) {
    for (const auto& [x, y] : one.points) {
      x_most = std::max(x_most, x);
      y_most = std::max(y_most, y);
    }
  }
  y_most = rounded_up(y_most);
  if (x_most <= 0) x_most = 1;
  std::string out = fmt::format("<figure><figcaption>{}</figcaption><svg viewBox='0 0 {} {}'>{}", escaped(title), width,
                                height, axes(x_most, y_most, x_name));
  std::string names;
  for (std::size_t i = 0; i < series.size(); ++i) {
    const char* color = colors[i % colors.size()];
    out += fmt::format("<polyline fill='none' stroke='{}' stroke-width='1.5' points='", color);
    for (const auto& [x, y] : series[i].points) {
      out += fmt::format("{:.1f},{:.1f} ", left + (width - right - left) * x / x_most,
                         height - bottom - (height - bottom - top) * y / y_most);
    }
    out += "'/>";
    names += fmt::format("<span style='color:{}'>{}</span> ", color, escaped(series[i].name));
  }
  return out + "</svg><p>" + names + "</p></figure>";
}

std::string bar_plot(std::string_view title, std::string_view x_name, const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, value);
  most = rounded_up(most);
  std::string out = fmt::format("<figure><figcaption>{}</figcaption><svg viewBox='0 0 {} {}'>{}", escaped(title), width,
                                height, axes(static_cast<double>(values.size()), most, x_name));
  const std::size_t bars = std::min<std::size_t>(values.size(), 256);  // more are put together
  const double each = (width - right - left) / static_cast<double>(std::max<std::size_t>(bars, 1));
  for (std::size_t i = 0; i < bars; ++i) {
    const std::size_t first = i * values.size() / bars, end = std::max(first + 1, (i + 1) * values.size() / bars);
    double sum = 0;
    for (std::size_t k = first; k < end; ++k) sum += values[k];
    const double tall = (height - bottom - top) * sum / static_cast<double>(end - first) / most;
    out += fmt::format("<rect x='{:.1f}' y='{:.1f}' width='{:.2f}' height='{:.1f}' fill='{}'/>",
                       left + each * static_cast<double>(i), height - bottom - tall, std::max(each - 0.5, 0.3), tall,
                       colors[0]);
  }
  return out + "</svg></figure>";
}

Series curve(const RunReport& report, std::string name, double Sample::* value) {
  Series series{.name = std::move(name), .points = {}};
  for (const Sample& sample : report.samples) series.points.emplace_back(sample.at_seconds, sample.*value);
  return series;
}

std::string percent_table(const RunReport& report) {
  const EnergyReport& e = report.energy;
  std::string out = "<table><tr><th>energy</th><th>J</th><th>%</th></tr>";
  const std::array<std::pair<std::string_view, double>, 6> parts{{{"page reads", e.read_j},
                                                                  {"programs", e.program_j},
                                                                  {"erases", e.erase_j},
                                                                  {"channels", e.channel_j},
                                                                  {"link", e.link_j},
                                                                  {"at rest", e.idle_j}}};
  for (const auto& [name, joules] : parts) {
    out += fmt::format("<tr><td>{}</td><td>{:.4g}</td><td>{:.1f}</td></tr>", name, joules, 100 * joules / e.total_j());
  }
  return out + "</table>";
}

std::string section(const RunReport& report) {
  std::string out = fmt::format("<h2>{}</h2><pre>{}</pre>", escaped(report.profile.title), escaped(report.text()));
  out += line_plot("Latency over time, microseconds", "seconds",
                   {curve(report, "reads p50", &Sample::read_p50_us), curve(report, "reads p99", &Sample::read_p99_us),
                    curve(report, "writes p99", &Sample::write_p99_us)});
  out += line_plot("Bandwidth, MB/s", "seconds",
                   {curve(report, "reads", &Sample::read_mb), curve(report, "writes", &Sample::write_mb)});
  out += line_plot("Write amplification", "seconds", {curve(report, "of each step", &Sample::write_amplification)});
  out += line_plot("Power, watts", "seconds", {curve(report, "of each step", &Sample::watts)});
  out += bar_plot("Where time went: share of it that each die was at work", "die", report.die_busy);
  out += bar_plot("Share of the time that each channel was at work", "channel", report.channel_busy);
  out += bar_plot("Wear of each superblock, share of its life", "superblock", report.wear);
  out += percent_table(report);
  out +=
      "<h3>Where the figures of the profile come from</h3><table><tr><th>figure</th><th>value</th><th>source</th></tr>";
  for (const Figure& figure : report.profile.figures) {
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}{}</td></tr>", escaped(figure.key), escaped(figure.value),
                       figure.source.empty() ? "<b>assumption</b>: " : "",
                       escaped(figure.source.empty() ? figure.assumption : figure.source));
  }
  return out + "</table>";
}

}  // namespace

std::string html_report(std::span<const RunReport> reports) {
  std::string out =
      "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>artesian nand</title><style>"
      "body{font:14px system-ui,sans-serif;margin:24px auto;max-width:1320px;padding:0 16px;color:#222}"
      "figure{display:inline-block;width:620px;margin:8px 12px 8px 0;vertical-align:top}figcaption{font-weight:600}"
      "svg{width:100%;background:#fafafa}.axis{stroke:#444;fill:none}.grid{stroke:#ddd}"
      "text{font-size:11px;fill:#444}.y{text-anchor:end}.x{text-anchor:middle}"
      "pre{background:#f4f4f4;padding:10px;overflow:auto}table{border-collapse:collapse;margin:8px 0}"
      "td,th{border:1px solid #ddd;padding:3px 8px;text-align:left}p{margin:2px 0}</style></head><body>"
      "<h1>Simulated drives</h1>";
  if (reports.size() > 1) out += "<pre>" + escaped(comparison(reports)) + "</pre>";
  for (const RunReport& report : reports) out += section(report);
  return out + "</body></html>\n";
}

}  // namespace artesian::nand
