// artesian nand: shipped drives, workloads on them in virtual time, and the table that the model is held to.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>

#include "base/units.h"
#include "commands.h"
#include "nand/check.h"
#include "nand/measures.h"
#include "nand/workload.h"
#include "nand_files.h"
#include "platform/processor_clock.h"
#include "progress.h"
#include "sim/serving.h"
#include "sim/store_check.h"

namespace artesian::cli {
namespace {

using nand::Profile;
using nand::RunReport;
using nand::Workload;

Status write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) return fail(Code::device_failed, "{}: cannot be written", path);
  return {};
}

// A shipped profile by name, or a file.
Result<Profile> load_profile(const std::string& name) {
  if (!name.ends_with(".json")) return nand::shipped_profile(name);
  const auto text = read_text(name);
  if (!text) return fail(text.error());
  return nand::parse_profile(*text, name);
}

std::string profile_row(const Profile& p) {
  const nand::Ceiling small = nand::read_ceiling(p, 4 * KiB), large = nand::read_ceiling(p, 128 * KiB);
  return fmt::format("{:<16} {:>9} {:>6} {:>10.0f} {:>9.0f} {:>9.0f}  {}\n", p.name, format_bytes(p.capacity_bytes),
                     p.dies(), small.least() * 1e-3, large.least() * 128 * KiB * 1e-6, p.pe_cycles, p.title);
}

Result<int> list_profiles() {
  std::string out = fmt::format("{:<16} {:>9} {:>6} {:>10} {:>9} {:>9}\n", "name", "capacity", "dies", "kIOPS 4K",
                                "read MB/s", "cycles");
  for (const auto& shipped : nand::shipped_profiles()) {
    const auto profile = nand::shipped_profile(shipped.name);
    if (!profile) return fail(profile.error());
    out += profile_row(*profile);
  }
  fmt::print("{}", out);
  return exit_ok;
}

Result<int> show_profile(const std::string& name, bool file) {
  const auto profile = load_profile(name);
  if (!profile) return fail(profile.error());
  if (file) {
    for (const auto& shipped : nand::shipped_profiles()) {
      if (shipped.name == profile->name) fmt::print("{}", shipped.json);
    }
    return exit_ok;
  }
  std::string out = fmt::format("{}: {}\n{}\n\n", profile->name, profile->title, profile->about);
  for (const auto& figure : profile->figures) {
    out += fmt::format(
        "{:<32} {:<24} {}{}\n", figure.key, figure.value,
        figure.source.empty() ? "ASSUMPTION: " : "source: ", figure.source.empty() ? figure.assumption : figure.source);
  }
  out += "\nPublished of the whole drive:\n";
  for (const auto& one : profile->published) {
    out += fmt::format("{:<32} {:<24} {}: {}{}{}\n", one.measure, fmt::format("{:g} {}", one.figure, one.unit),
                       one.used ? "used" : "not used, checks the profile", one.source, one.note.empty() ? "" : "; ",
                       one.note);
  }
  fmt::print("{}", out);
  return exit_ok;
}

Result<int> check(bool quick, bool json) {
  const ProcessorClock clock;
  std::vector<nand::CheckRow> rows;
  {
    ProgressLine line;
    constexpr double rows_expected = 60;
    double done = 0;
    const nand::CheckOptions options{.quick = quick, .clock = &clock, .progress = [&](const nand::CheckRow& row) {
                                       line.show(std::min(++done / rows_expected, 0.99), row.name);
                                     }};
    rows = nand::run_checks(options);
    if (auto checked = sim::check_store(rows, options); !checked) return fail(checked.error());
  }
  fmt::print("{}{}", json ? nand::check_json(rows) : nand::check_table(rows), json ? "\n" : "");
  const bool met = std::ranges::all_of(rows, [](const auto& row) { return !row.judged || row.met; });
  return met ? exit_ok : exit_missed;
}

struct RunCommand {
  std::vector<std::string> profiles;
  std::string workload, report;
  std::uint64_t capacity = 0;
  double seconds = 0;
  bool json = false;
  std::string traces;  // ARTESIAN_TRACES
};

Result<std::vector<RunReport>> run_all(const RunCommand& command) {
  auto workload = load_workload(command.workload);
  if (!workload) return fail(workload.error());
  if (command.capacity != 0) workload->capacity_bytes = command.capacity;
  if (command.seconds > 0) workload->seconds = command.seconds;
  std::vector<Profile> profiles;
  for (const std::string& name : command.profiles) {
    auto profile = load_profile(name);
    if (!profile) return fail(profile.error());
    profiles.push_back(std::move(*profile));
  }
  std::vector<RunReport> reports;
  ProgressLine line;
  for (const Profile& profile : profiles) {
    const auto count = static_cast<double>(profiles.size());
    const auto before = static_cast<double>(reports.size());
    auto report = sim::run_any(profile, *workload, command.traces,
                               [&](double part) { line.show((before + part) / count, profile.name); });
    if (!report) return fail(report.error());
    reports.push_back(std::move(*report));
  }
  return reports;
}

Result<int> run(const RunCommand& command, bool side_by_side) {
  const auto reports = run_all(command);
  if (!reports) return fail(reports.error());
  if (!command.report.empty()) {
    if (auto written = write_text(command.report, nand::html_report(*reports)); !written) return fail(written.error());
  }
  std::string out;
  for (const RunReport& report : *reports) {
    if (command.json) {
      out += (out.empty() ? "" : ",\n") + report.json();
    } else if (!side_by_side) {
      out += report.text();
    }
  }
  if (command.json) {
    fmt::print("{}\n", side_by_side ? "[" + out + "]" : out);
  } else {
    fmt::print("{}", side_by_side ? nand::comparison(*reports) : out);
  }
  return exit_ok;
}

void add_run_options(CLI::App& command, RunCommand& options, const Context& context) {
  options.traces = context.traces;
  command.add_option("--workload", options.workload, "A workload's file")->type_name("FILE")->required();
  add_size(command, "--capacity", options.capacity,
           "Of the drive that is simulated, by taking blocks away; else as the workload says, or what is comfortable");
  command.add_option("--seconds", options.seconds, "Of virtual time, of flows; else as the workload says")
      ->check(CLI::Range(1e-6, 1e6));
  command.add_flag("--json", options.json, "All figures, for programs");
  command.add_option("--report", options.report, "Write one page with plots there")->type_name("FILE.html");
}

}  // namespace

Action setup_nand_profiles(CLI::App& command, const Context&) {
  auto name = std::make_shared<std::string>();
  auto file = std::make_shared<bool>(false);
  command.add_option("PROFILE", *name, "A shipped profile, or a file: every figure with its source")->type_name("");
  command.add_flag("--file", *file, "The profile's own file, to change and use");
  set_examples(command, {"artesian nand profiles", "artesian nand profiles enterprise-tlc",
                         "artesian nand profiles enterprise-tlc --file >mine.json"});
  return [name, file] { return name->empty() ? list_profiles() : show_profile(*name, *file); };
}

Action setup_nand_check(CLI::App& command, const Context&) {
  auto quick = std::make_shared<bool>(false), json = std::make_shared<bool>(false);
  command.add_flag("--quick", *quick, "Smaller drives, the same rows and limits");
  command.add_flag("--json", *json, "A JSON array, one object for each row");
  set_examples(command, {"artesian nand check", "artesian nand check --quick --json"});
  return [quick, json] { return check(*quick, *json); };
}

Action setup_nand_run(CLI::App& command, const Context& context) {
  auto options = std::make_shared<RunCommand>();
  command.add_option("--profile", options->profiles, "A shipped profile, or a file that ends in .json")
      ->type_name("PROFILE")
      ->expected(1)
      ->required();
  add_run_options(command, *options, context);
  set_examples(command, {"artesian nand run --profile enterprise-tlc --workload mixed.ini",
                         "artesian nand run --profile mine.json --workload mixed.ini --seconds 10 --report run.html",
                         "artesian nand run --profile client-tlc --workload mixed.ini --capacity 64G --json"});
  return [options] { return run(*options, false); };
}

Action setup_nand_compare(CLI::App& command, const Context& context) {
  auto options = std::make_shared<RunCommand>();
  command.add_option("PROFILES", options->profiles, "Shipped profiles, or files that end in .json")
      ->type_name("")
      ->expected(1, 64)
      ->required();
  add_run_options(command, *options, context);
  set_examples(command, {"artesian nand compare xlflash-slc enterprise-tlc capacity-qlc --workload mixed.ini",
                         "artesian nand compare client-tlc mine.json --workload mixed.ini --report compare.html"});
  return [options] { return run(*options, true); };
}

}  // namespace artesian::cli
