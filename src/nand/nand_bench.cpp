// How fast the model is: requests and page operations a second of one core.
#include <benchmark/benchmark.h>

#include "base/units.h"
#include "nand/measures.h"

namespace artesian::nand {
namespace {

void random_reads(benchmark::State& state) {
  Prepared prepared = prepared_drive(*shipped_profile("enterprise-tlc"));
  std::int64_t requests = 0;
  for (auto _ : state) {
    const auto run =
        run_flows(*prepared.drive, {{.length = prepared.bytes, .depth = 256, .requests = 100'000}}, INT64_MAX);
    requests += static_cast<std::int64_t>(run[0].reads.count());
  }
  state.SetItemsProcessed(requests);
}
BENCHMARK(random_reads);

void mixed_overwrites(benchmark::State& state) {
  const Profile profile = *shipped_profile("enterprise-tlc");
  Drive drive(with_capacity(profile, 32 * GiB));
  drive.fill(0, drive.layout().logical_units);
  drive.reset_counters();
  for (auto _ : state) {
    run_flows(drive, {{.reads = 0.5, .bytes = 16 * KiB, .depth = 256, .requests = 50'000}}, INT64_MAX);
  }
  const DriveCounters counters = drive.counters();
  double pages = static_cast<double>(counters.media_written_bytes) / static_cast<double>(profile.page_bytes);
  for (const Purpose purpose : {Purpose::host, Purpose::copy}) {
    pages += static_cast<double>(counters.flash_ops[static_cast<std::size_t>(purpose)]);
  }
  state.counters["pages"] = benchmark::Counter(pages, benchmark::Counter::kIsRate);
}
BENCHMARK(mixed_overwrites);

// A drive of 1 TB with a map of 16 KiB: what it takes in memory is the process's peak.
void terabyte(benchmark::State& state) {
  Profile profile = *shipped_profile("enterprise-tlc");
  profile.map_unit_bytes = 16 * KiB;
  for (auto _ : state) {
    Drive drive(with_capacity(profile, 1'000'000'000'000));
    drive.fill(0, drive.layout().logical_units);
    state.counters["memory_MiB"] = static_cast<double>(drive.memory_bytes()) / static_cast<double>(MiB);
  }
}
BENCHMARK(terabyte)->Iterations(1)->Unit(benchmark::kSecond);

}  // namespace
}  // namespace artesian::nand
