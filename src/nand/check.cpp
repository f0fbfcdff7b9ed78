#include "nand/check.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "nand/closed_form.h"
#include "nand/flows.h"
#include "nand/measures.h"

namespace artesian::nand {
namespace {

void add(std::vector<CheckRow>& rows, const CheckOptions& options, CheckRow row) {
  if (options.progress) options.progress(row);
  rows.push_back(std::move(row));
}

CheckRow within(CheckRow row, double share) {
  row.goal = fmt::format("within {:g} %", share * 100);
  row.met = std::abs(row.deviation()) <= share;
  return row;
}

CheckRow exactly(CheckRow row) {
  row.goal = "exact";
  row.met = row.figure == row.reference;
  return row;
}

CheckRow at_most(CheckRow row) {
  row.goal = "at most";
  row.met = row.figure <= row.reference;
  return row;
}

CheckRow shown(CheckRow row) {
  row.goal = "shown";
  row.judged = false;
  return row;
}

// A drive for the translation layer's sake: pages of one unit, small superblocks and many of them, as theory has it.
Profile plain_profile(double alpha, std::uint64_t superblocks, std::uint64_t units) {
  Profile p;
  p.name = "plain";
  p.channels = 4;
  p.dies_per_channel = 2;
  p.planes_per_die = 1;
  p.blocks_per_plane = superblocks;
  p.wordlines_per_block = units / 8;
  p.page_bytes = p.map_unit_bytes = 4096;
  p.read_us = {20};
  p.program_us = 100;
  p.erase_us = 1000;
  p.pe_cycles = 1e9;
  p.capacity_bytes = 4096 * static_cast<std::uint64_t>(std::llround(static_cast<double>(superblocks * units) / alpha));
  p.collect_below = 2;
  p.buffer_bytes = 256 * 4096;
  return p;
}

// Brought to its steady state in no time, then measured in virtual time.
double steady_write_amplification(Profile p, Collection collection, bool quick) {
  p.collection = collection;
  Drive drive(p);
  const std::uint64_t units = drive.layout().logical_units;
  drive.fill(0, units);
  drive.overwrite_at_random(units * 6);
  drive.reset_counters();
  run_flows(drive, {{.reads = 0, .bytes = 4096, .depth = 64, .requests = quick ? units : units / 2}}, INT64_MAX);
  return drive.counters().write_amplification();
}

}  // namespace

void check_write_amplification(std::vector<CheckRow>& rows, const CheckOptions& options) {
  const std::uint64_t superblocks = options.quick ? 4096 : 8192, units = options.quick ? 16 : 128;
  for (const int spare : {10, 20, 28, 50}) {
    const double alpha = 1 + spare / 100.0;
    const Profile p = plain_profile(alpha, superblocks, units);
    const double fifo = steady_write_amplification(p, Collection::fifo, options.quick);
    add(rows, options,
        within({.name = fmt::format("fifo.{}", spare),
                .what = fmt::format("FIFO, uniform random writes, {} % spare", spare),
                .figure = fifo,
                .reference = fifo_write_amplification(alpha),
                .unit = "x"},
               spare == 10 ? 0.03 : 0.01));
    add(rows, options,
        at_most({.name = fmt::format("greedy.{}", spare),
                 .what = fmt::format("greedy beside FIFO as measured, {} % spare", spare),
                 .figure = steady_write_amplification(p, Collection::greedy, options.quick),
                 .reference = fifo,
                 .unit = "x"}));
  }
  // As blocks grow, all of them hold nearly the same share of stale units, and there is nothing to choose from.
  const std::uint64_t large = options.quick ? 512 : 4096;
  const Profile p = plain_profile(1.2, options.quick ? 256 : 512, large);
  const double fifo = steady_write_amplification(p, Collection::fifo, options.quick);
  const double greedy = steady_write_amplification(p, Collection::greedy, options.quick);
  add(rows, options,
      within({.name = "greedy.limit",
              .what = fmt::format("greedy beside FIFO, blocks of {} pages, 20 % spare", large),
              .figure = greedy,
              .reference = fifo,
              .unit = "x"},
             0.03));
}

void check_hot_and_cold(std::vector<CheckRow>& rows, const CheckOptions& options) {
  constexpr double alpha = 1.2, hot_share = 0.2, hot_writes = 0.8;
  const std::uint64_t superblocks = options.quick ? 2048 : 4096, units = options.quick ? 32 : 128;
  Profile p = plain_profile(alpha, superblocks, units);
  p.collection = Collection::fifo;
  p.placement_handles = 2;
  p.isolation = Isolation::persistent;
  p.collect_below = 3;
  const HotCold best = best_hot_cold_split(alpha, hot_share, hot_writes);
  const double logical = static_cast<double>(p.capacity_bytes / 4096) / static_cast<double>(units);
  const double spare = static_cast<double>(superblocks) - 2.5 - logical;  // two or three are free at any time
  const auto hot = static_cast<std::uint32_t>(std::lround(logical * hot_share + spare * best.hot_spare));
  Drive drive(p, {.quota = {hot, static_cast<std::uint32_t>(superblocks) - hot}});
  const auto total = drive.layout().logical_units;
  const auto hot_units = static_cast<std::uint32_t>(total * hot_share);
  drive.fill(0, hot_units, 0);
  drive.fill(hot_units, total - hot_units, 1);
  Random random(5);
  const auto write = [&](std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const bool is_hot = random.unit() < hot_writes;
      drive.fill(is_hot ? random.below(hot_units) : hot_units + random.below(total - hot_units), 1, is_hot ? 0 : 1);
    }
  };
  write(std::uint64_t{total} * 12);  // the cold part needs some passes, too
  drive.reset_counters();
  write(std::uint64_t{total} * 4);
  const auto& streams = drive.counters().programmed_bytes;
  const auto of = [&](Stream stream) { return static_cast<double>(streams[static_cast<std::size_t>(stream)]); };
  add(rows, options,
      within({.name = "hot_cold",
              .what = "20 % of the data take 80 % of the writes, each by itself, 20 % spare at its best split",
              .figure = (of(Stream::host) + of(Stream::collection)) / of(Stream::host),
              .reference = best.write_amplification,
              .unit = "x",
              .note = fmt::format("mixed: {:.2f}", fifo_write_amplification(alpha))},
             0.02));
}

namespace {

double sequential_write_amplification(Collection collection, bool trimmed) {
  Profile p = plain_profile(1.1, 256, 64);
  p.collection = collection;
  Drive drive(p);
  const std::uint64_t units = drive.layout().logical_units;
  if (trimmed) {
    drive.overwrite_at_random(units * 3);
    drive.trim(0, p.capacity_bytes);
  }
  drive.reset_counters();
  run_flows(drive, {{.reads = 0, .bytes = 16384, .access = Access::sequential, .depth = 32, .requests = units}},
            INT64_MAX);
  return drive.counters().write_amplification();
}

// Everything at once: partial units, compression, stripes, collection, levelling, folding by heat, a cached map,
// flushes.
void check_ledger(std::vector<CheckRow>& rows, const CheckOptions& options) {
  Profile p = plain_profile(1.25, 192, 96);
  p.bits_per_cell = 3;
  p.read_us = {20, 25, 30};
  p.wordlines_per_block /= 2;
  p.page_bytes = 8192;
  p.planes_per_die = 2;
  p.read_lanes_per_die = 2;
  p.pslc_superblocks = 8;
  p.wear_spread = 0.01;
  p.pe_cycles = 300;
  p.slc_pe_cycles = 3000;
  p.map_cache_bytes = 16 * 4096;
  p.power_loss_protection = false;
  p.collect_below = 4;
  p.compress_grain = 1024;
  p.map_entry_bytes = 8;
  p.stripe_dies = 4;
  p.tiering = Tiering::heat;
  p.capacity_bytes = p.physical_bytes() * 3 / 5 / 4096 * 4096;
  Drive drive(p);
  const std::uint64_t hot = p.capacity_bytes / 10 / 4096 * 4096;
  run_flows(drive,
            {{.reads = 0.3, .bytes = 1536, .length = hot, .depth = 16, .compress = 1.5, .requests = 150000},
             {.reads = 0.3, .bytes = 12288, .depth = 8, .requests = 60000}},
            INT64_MAX);
  drive.submit({.op = HostOp::flush});
  drive.run_until_idle();
  drive.drain();
  const DriveCounters c = drive.counters();
  const auto named = [](const DriveCounters& counters) {
    const auto of = [&](Stream stream) { return counters.programmed_bytes[static_cast<std::size_t>(stream)]; };
    return fmt::format("host {}, merge {}, compression -{}, collection {}, levelling {}, fold {}, map {}, padding {}",
                       format_bytes(counters.host_written_bytes), format_bytes(counters.merge_bytes),
                       format_bytes(counters.saved_bytes), format_bytes(of(Stream::collection)),
                       format_bytes(of(Stream::levelling)), format_bytes(of(Stream::fold)),
                       format_bytes(of(Stream::metadata)), format_bytes(of(Stream::padding)));
  };
  std::uint64_t by_cause = c.host_written_bytes + c.merge_bytes - c.saved_bytes;
  for (const Stream stream : {Stream::collection, Stream::levelling, Stream::fold, Stream::metadata, Stream::padding}) {
    by_cause += c.programmed_bytes[static_cast<std::size_t>(stream)];
  }
  add(rows, options,
      exactly({.name = "ledger.programmed",
               .what = "host + merge - compression + collection + levelling + fold + map + padding = bytes programmed",
               .figure = static_cast<double>(c.media_written_bytes),
               .reference = static_cast<double>(by_cause),
               .unit = "bytes",
               .note = named(c)}));
  std::uint64_t held = 0, erases = 0;
  for (std::uint32_t i = 0; i < drive.layout().superblocks; ++i) {
    const Superblock& block = drive.ftl().superblock(i);
    if (block.state != BlockState::retired) held += std::uint64_t{block.written} * drive.layout().grain_bytes;
    erases += block.erases;
  }
  add(rows, options,
      exactly({.name = "ledger.endurance",
               .what = "bytes erased + bytes in blocks = bytes the dies programmed",
               .figure = static_cast<double>(c.media_erased_bytes + held),
               .reference = static_cast<double>(c.media_written_bytes),
               .unit = "bytes"}));
  add(rows, options,
      exactly({.name = "ledger.erases",
               .what = "erases counted by block = erases counted by the dies",
               .figure = static_cast<double>(erases * drive.layout().dies),
               .reference = static_cast<double>(c.flash_ops[static_cast<std::size_t>(Purpose::erase)]),
               .unit = "erases"}));
}

}  // namespace

void check_exact(std::vector<CheckRow>& rows, const CheckOptions& options) {
  const auto once = [&](const char* name, const char* what, Collection collection, bool trimmed) {
    const double figure = sequential_write_amplification(collection, trimmed);
    add(rows, options, exactly({.name = name, .what = what, .figure = figure, .reference = 1.0, .unit = "x"}));
  };
  once("sequential", "sequential overwrite, greedy", Collection::greedy, false);
  once("sequential.fifo", "sequential overwrite, FIFO", Collection::fifo, false);
  once("trimmed", "everything trimmed after random writes, then written again", Collection::greedy, true);
  check_ledger(rows, options);
}

void check_mqsim(std::vector<CheckRow>& rows, const CheckOptions& options) {
  const Profile p = *shipped_profile("mqsim");
  constexpr std::pair<int, double> published[] = {{2, 21726}, {4, 40335}, {8, 69722}, {16, 105643}};
  for (const auto& [depth, iops] : published) {
    const FlowResult run = run_reads(p, 4096, Access::random, static_cast<std::uint32_t>(depth), 200000);
    add(rows, options,
        within({.name = fmt::format("mqsim.{}", depth),
                .what = fmt::format("MQSim's back-end scenario, 4 KiB random reads at depth {}", depth),
                .figure = run.iops(),
                .reference = iops,
                .unit = "IOPS"},
               0.05));
    if (depth != 2) continue;
    CheckRow least{.name = "mqsim.least",
                   .what = "MQSim's back-end scenario, least latency",
                   .figure = static_cast<double>(run.reads.least()) * 1e-3,
                   .reference = 88,
                   .unit = "us",
                   .goal = "within 1 us"};
    least.met = std::abs(least.figure - least.reference) <= 1;
    add(rows, options, std::move(least));
  }
}

void check_ceilings(std::vector<CheckRow>& rows, const CheckOptions& options) {
  for (const ShippedProfile& shipped : shipped_profiles()) {
    const Profile p = *shipped_profile(shipped.name);
    const Ceiling small = read_ceiling(p, 4096), large = read_ceiling(p, 128 * KiB);
    add(rows, options,
        within({.name = fmt::format("ceiling.iops.{}", p.name),
                .what = fmt::format("{}: 4 KiB random reads, as deep as it gets", p.name),
                .figure = *measure(p, "read_iops_4k"),
                .reference = small.least(),
                .unit = "IOPS",
                .note = fmt::format("limited by {}", small.limit())},
               0.02));
    add(rows, options,
        within({.name = fmt::format("ceiling.mb.{}", p.name),
                .what = fmt::format("{}: 128 KiB sequential reads", p.name),
                .figure = *measure(p, "read_mb_128k"),
                .reference = large.least() * 128 * KiB * 1e-6,
                .unit = "MB/s",
                .note = fmt::format("limited by {}", large.limit())},
               0.02));
  }
}

void check_classes(std::vector<CheckRow>& rows, const CheckOptions& options) {
  const Profile slc = *shipped_profile("xlflash-slc"), tlc = *shipped_profile("enterprise-tlc");
  const double latency = *measure(slc, "read_us_4k");
  add(rows, options,
      within({.name = "slc.iops",
              .what = "SLC class: 4 KiB random reads",
              .figure = *measure(slc, "read_iops_4k"),
              .reference = 3.5e6,
              .unit = "IOPS"},
             0.05));
  add(rows, options,
      at_most({.name = "slc.latency",
               .what = "SLC class: 4 KiB read alone",
               .figure = latency,
               .reference = 13,
               .unit = "us"}));
  add(rows, options,
      within({.name = "slc.mb",
              .what = "SLC class: 128 KiB sequential reads",
              .figure = *measure(slc, "read_mb_128k"),
              .reference = 14000,
              .unit = "MB/s"},
             0.05));
  add(rows, options,
      shown({.name = "slc.tlc.latency",
             .what = "SLC class against TLC: read latency, alone",
             .figure = latency / *measure(tlc, "read_us_4k"),
             .reference = 1.0 / 3,
             .unit = "x",
             .note =
                 "a third is published; the array of this SLC is eleven times quicker than TLC, the rest of the path "
                 "is the same, so a drive gains more than a third"}));
  const auto die_mb = [](const Profile& p) {
    return static_cast<double>(p.planes_per_die * p.bits_per_cell * p.page_bytes) / p.program_us;
  };
  add(rows, options,
      within({.name = "slc.tlc.write",
              .what = "SLC class against TLC: write throughput of a die",
              .figure = die_mb(slc) / die_mb(tlc),
              .reference = 3,
              .unit = "x"},
             0.1));
  CheckRow life{.name = "slc.tlc.endurance",
                .what = "SLC class against TLC: endurance, from rated cycles",
                .figure = slc.pe_cycles / tlc.pe_cycles,
                .reference = 17,
                .unit = "x",
                .goal = "17 to 33 x, rounded"};
  life.met = std::round(life.figure) >= 17 && std::round(life.figure) <= 33;
  life.note = "6,000 cycles for TLC; 33 with 3,000";
  add(rows, options, std::move(life));
  const Profile pro = *shipped_profile("970pro");
  add(rows, options,
      within({.name = "970pro.latency",
              .what = "970 PRO: 4 KiB read alone",
              .figure = *measure(pro, "read_us_4k"),
              .reference = 35.76 + 21.5 + 4096 / pro.channel_mb + 4096 / pro.link_mb,
              .unit = "us"},
             0.05));
}

namespace {

struct Beside {
  double idle = 0, beside = 0;  // p99 of demand reads, us
  double allowed = 0;           // what suspend and one transfer add
};

Beside reads_beside_writes(bool able, bool quick) {
  Profile p = with_capacity(*shipped_profile("enterprise-tlc"), (quick ? 8 : 24) * GiB);
  p.placement_handles = 1;
  p.priorities = able;
  if (!able) p.suspend = Suspend::none;
  Beside result;
  const std::uint64_t reads = quick ? 4000 : 20000;
  for (const bool writing : {false, true}) {
    Drive drive(p);
    drive.fill(0, drive.layout().logical_units / 2);
    drive.reset_counters();
    std::vector<Flow> flows{{.name = "reads", .length = p.capacity_bytes / 2, .depth = 1, .requests = reads}};
    if (writing) {
      flows.push_back({.name = "writes",
                       .reads = 0,
                       .bytes = 128 * KiB,
                       .access = Access::sequential,
                       .first = p.capacity_bytes / 2 / MiB * MiB,
                       .depth = 32,
                       .io_class = IoClass::write});
    }
    const Time limit = writing && !able ? from_us(20e6) : INT64_MAX;
    const FlowResult run = std::move(run_flows(drive, flows, limit)[0]);
    (writing ? result.beside : result.idle) = static_cast<double>(run.reads.percentile(0.99)) * 1e-3;
    const auto page = static_cast<std::uint64_t>(static_cast<double>(p.page_bytes) * (1 + p.parity_share));
    result.allowed = p.suspend_us + static_cast<double>(drive.flash().move_time(page)) * 1e-3;
  }
  return result;
}

}  // namespace

void check_priorities(std::vector<CheckRow>& rows, const CheckOptions& options) {
  const Beside with = reads_beside_writes(true, options.quick), without = reads_beside_writes(false, options.quick);
  add(rows, options,
      at_most({.name = "demand.beside",
               .what = "p99 of demand reads beside sustained writes, with priorities and suspend",
               .figure = with.beside,
               .reference = with.idle + with.allowed,
               .unit = "us",
               .note = fmt::format("idle {:.1f} us, suspend and one transfer {:.1f} us", with.idle, with.allowed)}));
  CheckRow row{.name = "demand.without",
               .what = "the same without priorities and suspend, many times more",
               .figure = without.beside,
               .reference = with.beside,
               .unit = "us",
               .goal = "at least 5 times"};
  row.met = row.figure >= 5 * row.reference;
  add(rows, options, std::move(row));
}

void check_published(std::vector<CheckRow>& rows, const CheckOptions& options) {
  for (const ShippedProfile& shipped : shipped_profiles()) {
    const Profile p = *shipped_profile(shipped.name);
    std::size_t held_out = 0;
    for (const Published& one : p.published) {
      if (one.used) continue;
      if (p.name == "mqsim") {  // its scenario is judged: check_mqsim
        ++held_out;
        continue;
      }
      const auto figure = measure(p, one.measure);
      held_out += figure ? 1 : 0;
      add(rows, options,
          shown({.name = fmt::format("published.{}.{}", p.name, one.measure),
                 .what = fmt::format("{}: {}, not used for the profile", p.name, one.measure),
                 .figure = figure.value_or(0),
                 .reference = one.figure,
                 .unit = one.unit,
                 .note = one.note}));
    }
    CheckRow row{.name = fmt::format("published.{}", p.name),
                 .what = fmt::format("{}: published figures that were not used to make it, and are measured", p.name),
                 .figure = static_cast<double>(held_out),
                 .reference = 1,
                 .unit = "figures",
                 .goal = "at least"};
    row.met = row.figure >= row.reference;
    add(rows, options, std::move(row));
  }
}

void check_speed(std::vector<CheckRow>& rows, const CheckOptions& options) {
  if (options.clock == nullptr) return;
  const auto timed = [&](const auto& work) {
    const Nanos start = options.clock->now();
    work();
    return static_cast<double>((options.clock->now() - start).count()) * 1e-9;
  };
  const auto at_least = [](CheckRow row) {
    row.goal = "at least";
    row.met = row.figure >= row.reference;
    return row;
  };
  const Profile p = *shipped_profile("enterprise-tlc");
  {
    Prepared prepared = prepared_drive(p);
    const std::uint64_t count = 2'000'000;
    const double seconds = timed(
        [&] { run_flows(*prepared.drive, {{.length = prepared.bytes, .depth = 256, .requests = count}}, INT64_MAX); });
    add(rows, options,
        at_least({.name = "speed.requests",
                  .what = "4 KiB random reads simulated a second of this processor",
                  .figure = static_cast<double>(count) / seconds,
                  .reference = 300e3,
                  .unit = "requests/s",
                  .note = fmt::format("MQSim: 36 thousand; {:.1f} s", seconds)}));
  }
  {
    Profile large = p;
    large.map_unit_bytes = 16 * KiB;
    const Drive drive(with_capacity(large, 1'000'000'000'000));
    add(rows, options,
        at_most({.name = "memory.terabyte",
                 .what = "tables of a drive of 1 TB with a map of 16 KiB",
                 .figure = static_cast<double>(drive.memory_bytes()),
                 .reference = 2.0 * GiB,
                 .unit = "bytes"}));
  }
  {
    Drive drive(with_capacity(p, 48 * GiB));
    drive.fill(0, drive.layout().logical_units);
    drive.reset_counters();
    const double seconds = timed(
        [&] { run_flows(drive, {{.reads = 0.5, .bytes = 16 * KiB, .depth = 256, .requests = 400'000}}, INT64_MAX); });
    const DriveCounters c = drive.counters();
    double ops = static_cast<double>(c.media_written_bytes) / static_cast<double>(p.page_bytes);
    for (const Purpose purpose : {Purpose::host, Purpose::copy}) {
      ops += static_cast<double>(c.flash_ops[static_cast<std::size_t>(purpose)]);
    }
    add(rows, options,
        at_least({.name = "speed.pages",
                  .what = "page operations a second, reads and overwrites of a full drive",
                  .figure = ops / seconds,
                  .reference = 1e6,
                  .unit = "pages/s",
                  .note = fmt::format("{:.1f} s", seconds)}));
  }
}

std::vector<CheckRow> run_checks(const CheckOptions& options) {
  std::vector<CheckRow> rows;
  for (const auto check : {check_write_amplification, check_hot_and_cold, check_exact, check_mqsim, check_ceilings,
                           check_classes, check_priorities, check_published, check_speed}) {
    check(rows, options);
  }
  return rows;
}

std::string check_table(const std::vector<CheckRow>& rows) {
  std::string text =
      fmt::format("{:<34} {:>14} {:>14} {:>9}  {:<14} {}\n", "", "figure", "reference", "deviation", "goal", "");
  std::size_t missed = 0, judged = 0;
  for (const CheckRow& row : rows) {
    judged += row.judged ? 1 : 0;
    missed += row.judged && !row.met ? 1 : 0;
    text += fmt::format("{:<34} {:>14.8g} {:>14.8g} {:>+8.2f}%  {:<14} {:<6}  {} ({}){}{}\n", row.name, row.figure,
                        row.reference, row.deviation() * 100, row.goal,
                        !row.judged ? ""
                        : row.met   ? "met"
                                    : "MISSED",
                        row.what, row.unit, row.note.empty() ? "" : "; ", row.note);
  }
  return text + fmt::format("{} of {} goals met\n", judged - missed, judged);
}

std::string check_json(const std::vector<CheckRow>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const CheckRow& row : rows) {
    list.push_back({{"name", row.name},
                    {"what", row.what},
                    {"figure", row.figure},
                    {"reference", row.reference},
                    {"deviation", row.deviation()},
                    {"unit", row.unit},
                    {"goal", row.goal},
                    {"judged", row.judged},
                    {"met", row.met},
                    {"note", row.note}});
  }
  return list.dump(1);
}

}  // namespace artesian::nand
