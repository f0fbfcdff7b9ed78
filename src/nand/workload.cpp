#include "nand/workload.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/units.h"
#include "nand/measures.h"

namespace artesian::nand {
namespace {

constexpr std::uint64_t comfortable_units = 24'000'000;  // of the map: some hundred megabytes of tables
constexpr int sample_count = 100;
constexpr double seconds_per_day = 86400;

}  // namespace

Result<Profile> simulated_part(const Profile& profile, const Workload& workload) {
  const std::uint64_t most =
      workload.capacity_bytes != 0 ? workload.capacity_bytes : comfortable_units * profile.grain_bytes();
  if (workload.capacity_bytes > profile.capacity_bytes) {
    return fail(Code::invalid, "{}: asks for a drive of {}, the profile {} has {}", workload.name,
                format_bytes(workload.capacity_bytes), profile.name, format_bytes(profile.capacity_bytes));
  }
  Profile part = with_capacity(profile, most);
  if (auto checked = check_profile(part); !checked) return fail(checked.error());
  if (auto checked = check_size(part); !checked) return fail(checked.error());
  return part;
}

void prepare_drive(Drive& drive, const Workload& workload) {
  const auto units = static_cast<double>(drive.layout().logical_units);
  drive.fill_compress(workload.compress);
  drive.fill(0, static_cast<std::uint64_t>(workload.fill * units));
  drive.overwrite_at_random(static_cast<std::uint64_t>(workload.overwrite * units));
  drive.wear(workload.wear);
  drive.age(workload.age_months);
  drive.reset_counters();
}

namespace {

Result<std::vector<Flow>> placed_flows(const Workload& workload, const Profile& profile) {
  std::vector<Flow> flows;
  const std::uint64_t capacity = profile.capacity_bytes;
  for (const auto& entry : workload.flows) {
    Flow flow = entry.flow;
    const auto part = [&](double share) {
      return align_down(static_cast<std::uint64_t>(share * static_cast<double>(capacity)), flow.bytes);
    };
    if (entry.first_share >= 0) flow.first = part(entry.first_share);
    if (entry.length_share >= 0) flow.length = part(entry.length_share);
    if (flow.length == 0 && flow.first < capacity) flow.length = capacity - flow.first;
    if (flow.first > capacity || flow.length > capacity - flow.first || flow.length < flow.bytes) {
      return fail(Code::invalid, "{}:{}: the flow {} asks for {} from {} on, the drive holds {}", workload.name,
                  entry.line, flow.name, format_bytes(flow.length), format_bytes(flow.first), format_bytes(capacity));
    }
    flows.push_back(flow);
  }
  return flows;
}

Sample sample_of(const std::vector<FlowResult>& step, const DriveCounters& now, const DriveCounters& before,
                 double joules, double at, double seconds) {
  Histogram reads, writes;
  Sample sample{.at_seconds = at};
  for (const FlowResult& flow : step) {
    reads.add(flow.reads);
    writes.add(flow.writes);
    sample.read_mb += static_cast<double>(flow.read_bytes) * 1e-6 / seconds;
    sample.write_mb += static_cast<double>(flow.written_bytes) * 1e-6 / seconds;
  }
  sample.read_p50_us = static_cast<double>(reads.percentile(0.5)) * 1e-3;
  sample.read_p99_us = static_cast<double>(reads.percentile(0.99)) * 1e-3;
  sample.write_p99_us = static_cast<double>(writes.percentile(0.99)) * 1e-3;
  const std::uint64_t host = now.host_written_bytes - before.host_written_bytes;
  const std::uint64_t appended = now.appended_bytes() - before.appended_bytes();
  sample.write_amplification = host == 0 ? 0 : static_cast<double>(appended) / static_cast<double>(host);
  sample.watts = joules / seconds;
  return sample;
}

std::vector<double> shares(const std::vector<Time>& busy, Time elapsed) {
  std::vector<double> result;
  for (const Time time : busy) {
    result.push_back(std::min(1.0, static_cast<double>(time) / static_cast<double>(std::max<Time>(elapsed, 1))));
  }
  return result;
}

}  // namespace

void Recorder::step(const std::vector<FlowResult>& results) {
  const DriveCounters now = drive_.counters();
  const double seconds = static_cast<double>(now.elapsed - before_.elapsed) * 1e-9;
  const double joules = drive_.energy().total_j();
  if (seconds > 0) {
    report_.samples.push_back(
        sample_of(results, now, before_, joules - joules_, static_cast<double>(now.elapsed) * 1e-9, seconds));
  }
  if (report_.flows.empty()) {
    report_.flows = std::vector<FlowResult>(results.size());
    for (std::size_t i = 0; i < results.size(); ++i) report_.flows[i].first = results[i].first;
  }
  for (std::size_t i = 0; i < results.size(); ++i) report_.flows[i].add(results[i]);
  before_ = now;
  joules_ = joules;
}

void Recorder::finish() {
  report_.counters = drive_.counters();
  report_.fdp = drive_.fdp();
  report_.energy = drive_.energy();
  report_.die_busy = shares(drive_.flash().die_busy(), report_.counters.elapsed);
  report_.channel_busy = shares(drive_.flash().channel_busy(), report_.counters.elapsed);
  for (std::uint32_t i = 0; i < drive_.layout().superblocks; ++i) {
    report_.wear.push_back(static_cast<double>(drive_.ftl().superblock(i).wear));
  }
  report_.wear_mean = drive_.ftl().wear_mean();
  report_.wear_max = drive_.ftl().wear_max();
  // The whole drive takes the same writes, and spreads them over more cells.
  const double seconds = static_cast<double>(report_.counters.elapsed) * 1e-9;
  const double part = static_cast<double>(report_.profile.capacity_bytes) / static_cast<double>(report_.whole_bytes);
  const double per_day = static_cast<double>(report_.counters.host_written_bytes) / seconds * seconds_per_day;
  report_.years = drive_.years_of_life(per_day * part);
  report_.worn_out = drive_.worn_out();
  report_.digest = drive_.digest();
}

TokenCost RunReport::cost() const {
  return tokens ? cost_of(*tokens, workload.serving, profile, whole_bytes, energy, years) : TokenCost{};
}

Result<RunReport> run_workload(const Profile& profile, const Workload& workload,
                               const std::function<void(double)>& progress) {
  auto part = simulated_part(profile, workload);
  if (!part) return fail(part.error());
  auto flows = placed_flows(workload, *part);
  if (!flows) return fail(flows.error());
  RunReport report{.profile = *part, .whole_bytes = profile.capacity_bytes, .workload = workload};
  Drive drive(*part, {.seed = workload.seed});
  prepare_drive(drive, workload);
  FlowRunner runner(drive, *flows, 0, workload.seed);
  Recorder recorder(report, drive);
  const Time start = drive.now(), length = std::llround(workload.seconds * 1e9);
  bool more = true;
  for (int step = 1; step <= sample_count && more && !drive.worn_out(); ++step) {
    more = runner.run_until(start + length * step / sample_count);
    recorder.step(runner.take_results());
    if (progress) progress(static_cast<double>(step) / sample_count);
  }
  recorder.finish();
  return report;
}

namespace {

double us(Time time) {
  return static_cast<double>(time) * 1e-3;
}

std::string latency_row(std::string_view name, std::string_view kind, const Histogram& h, double seconds,
                        std::uint64_t bytes) {
  if (h.count() == 0) return {};
  return fmt::format("  {:<20} {:<6} {:>12.0f} {:>12} {:>10.1f} {:>10.1f} {:>10.1f} {:>10.1f} {:>10.1f}\n", name, kind,
                     static_cast<double>(h.count()) / seconds, format_rate(static_cast<double>(bytes) / seconds),
                     h.mean() * 1e-3, us(h.percentile(0.5)), us(h.percentile(0.99)), us(h.percentile(0.999)),
                     us(h.most()));
}

constexpr std::array<std::string_view, stream_count> stream_names{"host",    "collection", "levelling",
                                                                  "folding", "map",        "padding"};
constexpr std::array<std::string_view, purpose_count> purpose_names{
    "host_read", "map_read", "merge_read", "copy_read", "prefetch_read", "program", "erase"};

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

std::string token_text(const TokenReport& t, const TokenCost& cost) {
  std::string out;
  if (t.first_token.count() > 0) {
    out += fmt::format("  time to first token of {} requests: mean {:.3g} s, p50 {:.3g} s, p99 {:.3g} s\n",
                       t.first_token.count(), t.first_token.mean() * 1e-9, seconds_of(t.first_token.percentile(0.5)),
                       seconds_of(t.first_token.percentile(0.99)));
  }
  if (t.prompt_tokens > 0) {
    out += fmt::format(
        "  prompts of {} tokens, {:.1f} % of them read instead of computed, {:.4g} a second of machine\n",
        t.prompt_tokens, 100.0 * static_cast<double>(t.reused_tokens) / static_cast<double>(t.prompt_tokens),
        t.prompt_rate());
  }
  if (t.decoded_tokens > 0)
    out += fmt::format("  decoded {} tokens, {:.4g} a second\n", t.decoded_tokens, t.decode_rate());
  out += fmt::format(
      "  {:.4g} tokens a second in all; a million: {:.4g} J (drive {:.4g}, machine {:.4g}), {:.4g} USD (drive {:.3g}, "
      "power {:.3g}, machine {:.3g})\n",
      t.tokens_per_second(), cost.joules(), cost.drive_joules, cost.machine_joules, cost.usd(), cost.drive_usd,
      cost.energy_usd, cost.machine_usd);
  out += fmt::format(
      "  compared: {} blocks ({} were found and gone when read), {} of weights; the store wrote {}, carried {}\n",
      t.blocks_checked, t.blocks_lost, format_bytes(t.weights_checked), format_bytes(t.store_written),
      format_bytes(t.store_carried));
  return out;
}

}  // namespace

std::string RunReport::text() const {
  const double seconds = static_cast<double>(counters.elapsed) * 1e-9;
  std::string out = fmt::format("{} ({} of {} simulated), {:g} s of virtual time, digest {:016x}\n", profile.title,
                                format_bytes(profile.capacity_bytes), format_bytes(whole_bytes), seconds, digest);
  out += fmt::format("  {:<20} {:<6} {:>12} {:>12} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "flow", "", "IOPS",
                     "bandwidth", "mean us", "p50 us", "p99 us", "p99.9 us", "most us");
  for (const FlowResult& flow : flows) {
    out += latency_row(flow.name, "reads", flow.reads, seconds, flow.read_bytes);
    out += latency_row(flow.name, "writes", flow.writes, seconds, flow.written_bytes);
    out += latency_row(flow.name, "whole", flow.groups, seconds, 0);
    if (flow.failed > 0) out += fmt::format("  {:<20} {} writes failed\n", flow.name, flow.failed);
  }
  out +=
      fmt::format("  written {}, programmed {}, write amplification {:.3f}:", format_bytes(counters.host_written_bytes),
                  format_bytes(counters.appended_bytes()), counters.write_amplification());
  for (std::size_t i = 0; i < stream_count; ++i) {
    out += fmt::format(" {} {}", stream_names[i], format_bytes(counters.programmed_bytes[i]));
  }
  if (counters.saved_bytes > 0) out += fmt::format(", compression saved {}", format_bytes(counters.saved_bytes));
  if (profile.tiering == Tiering::heat) {
    out += fmt::format("\n  by heat {} stayed in one-bit mode and {} came back to it",
                       format_bytes(counters.kept_units * profile.map_unit_bytes),
                       format_bytes(counters.promoted_units * profile.map_unit_bytes));
  }
  if (profile.read_cache_bytes > 0) out += fmt::format("\n  {} units of reads came from DRAM", counters.cache_hits);
  out += fmt::format(
      "\n  dies busy {:.1f} %, channels {:.1f} %; {} retries, {} suspends, {} reads from the buffer, {} map misses\n",
      mean_of(die_busy) * 100, mean_of(channel_busy) * 100, counters.retries, counters.suspends, counters.buffer_hits,
      counters.map_misses);
  out += fmt::format(
      "  energy {:.3g} J ({:.2f} W): reads {:.3g}, programs {:.3g}, erases {:.3g}, channels {:.3g}, link {:.3g}, "
      "rest {:.3g}\n",
      energy.total_j(), energy.total_j() / seconds, energy.read_j, energy.program_j, energy.erase_j, energy.channel_j,
      energy.link_j, energy.idle_j);
  out += std::isinf(years) ? "  nothing was written: no end of life\n"
                           : fmt::format("  at this rate of writing the cells last {:.3g} years\n", years);
  if (worn_out) out += "  the drive wore out during the run\n";
  if (tokens) out += token_text(*tokens, cost());
  return out;
}

namespace {

nlohmann::json to_json(const Histogram& h) {
  return {{"count", h.count()},
          {"mean_us", h.mean() * 1e-3},
          {"least_us", us(h.least())},
          {"p50_us", us(h.percentile(0.5))},
          {"p99_us", us(h.percentile(0.99))},
          {"p999_us", us(h.percentile(0.999))},
          {"most_us", us(h.most())}};
}

nlohmann::json to_json(const TokenReport& t, const TokenCost& cost) {
  return {{"requests", t.first_token.count()},
          {"first_token_s",
           {{"mean", t.first_token.mean() * 1e-9},
            {"p50", seconds_of(t.first_token.percentile(0.5))},
            {"p99", seconds_of(t.first_token.percentile(0.99))}}},
          {"prompt_tokens", t.prompt_tokens},
          {"reused_tokens", t.reused_tokens},
          {"output_tokens", t.output_tokens},
          {"prompt_tokens_per_machine_second", t.prompt_rate()},
          {"decoded_tokens", t.decoded_tokens},
          {"decoded_tokens_per_second", t.decode_rate()},
          {"tokens_per_second", t.tokens_per_second()},
          {"seconds", t.seconds},
          {"machine_seconds", t.machine_seconds},
          {"blocks_checked", t.blocks_checked},
          {"blocks_lost", t.blocks_lost},
          {"weight_bytes_checked", t.weights_checked},
          {"store_written_bytes", t.store_written},
          {"store_carried_bytes", t.store_carried},
          {"per_million_tokens",
           {{"joules", cost.joules()},
            {"drive_joules", cost.drive_joules},
            {"usd", cost.usd()},
            {"drive_usd", cost.drive_usd},
            {"energy_usd", cost.energy_usd},
            {"machine_usd", cost.machine_usd}}}};
}

}  // namespace

std::string RunReport::json() const {
  using Json = nlohmann::json;
  Json out{{"profile", profile.name},
           {"workload", workload.name},
           {"capacity_bytes", profile.capacity_bytes},
           {"seconds", static_cast<double>(counters.elapsed) * 1e-9},
           {"digest", fmt::format("{:016x}", digest)},
           {"write_amplification", counters.write_amplification()},
           {"host_read_bytes", counters.host_read_bytes},
           {"host_written_bytes", counters.host_written_bytes},
           {"merge_bytes", counters.merge_bytes},
           {"saved_bytes", counters.saved_bytes},
           {"cache_hits", counters.cache_hits},
           {"kept_bytes", counters.kept_units * profile.map_unit_bytes},
           {"promoted_bytes", counters.promoted_units * profile.map_unit_bytes},
           {"media_written_bytes", counters.media_written_bytes},
           {"media_erased_bytes", counters.media_erased_bytes},
           {"fdp", {{"hbmw", fdp.host_written}, {"mbmw", fdp.media_written}, {"mbe", fdp.media_erased}}},
           {"retries", counters.retries},
           {"suspends", counters.suspends},
           {"map_misses", counters.map_misses},
           {"energy_j", energy.total_j()},
           {"die_busy", die_busy},
           {"channel_busy", channel_busy},
           {"wear_mean", wear_mean},
           {"wear_max", wear_max},
           {"worn_out", worn_out}};
  out["years"] = std::isinf(years) ? Json() : Json(years);
  if (tokens) out["tokens"] = to_json(*tokens, cost());
  for (std::size_t i = 0; i < stream_count; ++i) {
    out["programmed_bytes"][std::string(stream_names[i])] = counters.programmed_bytes[i];
  }
  for (std::size_t i = 0; i < purpose_count; ++i) {
    out["flash_operations"][std::string(purpose_names[i])] = counters.flash_ops[i];
  }
  for (const FlowResult& flow : flows) {
    out["flows"].push_back({{"name", flow.name},
                            {"reads", to_json(flow.reads)},
                            {"writes", to_json(flow.writes)},
                            {"whole", to_json(flow.groups)},
                            {"read_bytes", flow.read_bytes},
                            {"written_bytes", flow.written_bytes},
                            {"failed", flow.failed}});
  }
  for (const Sample& s : samples) {
    out["samples"].push_back({{"at_seconds", s.at_seconds},
                              {"read_p50_us", s.read_p50_us},
                              {"read_p99_us", s.read_p99_us},
                              {"write_p99_us", s.write_p99_us},
                              {"read_mb", s.read_mb},
                              {"write_mb", s.write_mb},
                              {"write_amplification", s.write_amplification},
                              {"watts", s.watts}});
  }
  return out.dump(1);
}

namespace {

struct Line {
  std::string name;
  std::function<std::string(const RunReport&)> value;
  bool of_tokens = false;
};

Histogram all(const RunReport& report, Histogram FlowResult::* kind) {
  Histogram sum;
  for (const FlowResult& flow : report.flows) sum.add(flow.*kind);
  return sum;
}

std::vector<Line> comparison_lines() {
  const auto seconds = [](const RunReport& r) { return static_cast<double>(r.counters.elapsed) * 1e-9; };
  const auto number = [](double value) { return fmt::format("{:.4g}", value); };
  const auto of_tokens = [=](auto value) {
    return [=](const RunReport& r) { return r.tokens ? number(value(*r.tokens)) : "-"; };
  };
  const auto of_cost = [=](auto value) {
    return [=](const RunReport& r) { return r.tokens ? number(value(r.cost())) : "-"; };
  };
  const auto percentile = [=](Histogram FlowResult::* kind, double share) {
    return [=](const RunReport& r) { return number(us(all(r, kind).percentile(share))); };
  };
  return {
      {"read MB/s",
       [=](const RunReport& r) { return number(static_cast<double>(r.counters.host_read_bytes) * 1e-6 / seconds(r)); }},
      {"write MB/s",
       [=](const RunReport& r) {
         return number(static_cast<double>(r.counters.host_written_bytes) * 1e-6 / seconds(r));
       }},
      {"written GB",
       [=](const RunReport& r) { return number(static_cast<double>(r.counters.host_written_bytes) * 1e-9); }},
      {"programmed GB",
       [=](const RunReport& r) { return number(static_cast<double>(r.counters.appended_bytes()) * 1e-9); }},
      {"read p50 us", percentile(&FlowResult::reads, 0.5)},
      {"read p99 us", percentile(&FlowResult::reads, 0.99)},
      {"read p99.9 us", percentile(&FlowResult::reads, 0.999)},
      {"write p99 us", percentile(&FlowResult::writes, 0.99)},
      {"write amplification", [=](const RunReport& r) { return number(r.counters.write_amplification()); }},
      {"years of life", [=](const RunReport& r) { return std::isinf(r.years) ? "-" : number(r.years); }},
      {"watts", [=](const RunReport& r) { return number(r.energy.total_j() / seconds(r)); }},
      {"joules per GB",
       [=](const RunReport& r) {
         return number(r.energy.total_j() * 1e9 /
                       static_cast<double>(r.counters.host_read_bytes + r.counters.host_written_bytes));
       }},
      {"USD per TB", [=](const RunReport& r) { return number(r.profile.usd_per_tb); }},
      {"first token p50 s", of_tokens([=](const auto& t) { return seconds_of(t.first_token.percentile(0.5)); }), true},
      {"first token p99 s", of_tokens([=](const auto& t) { return seconds_of(t.first_token.percentile(0.99)); }), true},
      {"prompt read %", of_tokens([](const auto& t) {
         return 100.0 * static_cast<double>(t.reused_tokens) /
                static_cast<double>(std::max<std::uint64_t>(t.prompt_tokens, 1));
       }),
       true},
      {"prompt tokens/s", of_tokens([](const auto& t) { return t.prompt_rate(); }), true},
      {"decoded tokens/s", of_tokens([](const auto& t) { return t.decode_rate(); }), true},
      {"tokens/s", of_tokens([](const auto& t) { return t.tokens_per_second(); }), true},
      {"J per M tokens", of_cost([](const TokenCost& c) { return c.joules(); }), true},
      {"USD per M tokens", of_cost([](const TokenCost& c) { return c.usd(); }), true},
      {"of it the drive", of_cost([](const TokenCost& c) { return c.drive_usd; }), true},
  };
}

}  // namespace

std::string comparison(std::span<const RunReport> reports) {
  std::string out = fmt::format("{:<20}", "");
  for (const RunReport& report : reports) out += fmt::format(" {:>16}", report.profile.name);
  out += "\n";
  const bool serving = std::ranges::any_of(reports, [](const RunReport& report) { return report.tokens.has_value(); });
  for (const Line& line : comparison_lines()) {
    if (line.of_tokens && !serving) continue;
    out += fmt::format("{:<20}", line.name);
    for (const RunReport& report : reports) out += fmt::format(" {:>16}", line.value(report));
    out += "\n";
  }
  return out;
}

}  // namespace artesian::nand
