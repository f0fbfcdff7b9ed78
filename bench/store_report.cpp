// How the figures of `artesian bench store` are said.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/statistics.h"
#include "bench/store_measure.h"

namespace artesian::bench {
namespace {

double median_of(const std::vector<StoreSample>& samples, double StoreSample::* figure) {
  std::vector<double> values;
  for (const StoreSample& sample : samples) values.push_back(sample.*figure);
  return median_or_0(std::move(values));
}

double rate(const std::vector<StoreSample>& samples) {
  return median_of(samples, &StoreSample::bytes_per_second);
}

double p99(const std::vector<StoreSample>& samples) {
  return median_of(samples, &StoreSample::p99_us);
}

// Median of the ratios of pairs that were measured one after the other; 0 without.
double ratio(const std::vector<StoreSample>& ours, const std::vector<StoreSample>& theirs) {
  std::vector<double> values;
  for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    if (theirs[i].bytes_per_second > 0) values.push_back(ours[i].bytes_per_second / theirs[i].bytes_per_second);
  }
  return median_or_0(std::move(values));
}

std::string cell(double bytes_per_second) {
  return bytes_per_second > 0 ? format_rate(bytes_per_second) : "-";
}

// Of the smaller of 1.5 times the best peer and 95 % of the drive; none unless all peers are there.
std::optional<double> against_peer(const StoreCase& one) {
  if (one.files.empty() || one.peers.empty()) return std::nullopt;
  double best = rate(one.files);
  for (const auto& peer : one.peers) {
    if (peer.empty()) return std::nullopt;
    best = std::max(best, rate(peer));
  }
  const double goal = std::min(1.5 * best, 0.95 * rate(one.drive));
  return goal > 0 ? std::optional(rate(one.store) / goal) : std::nullopt;
}

std::string title_row(const StoreBenchReport& report) {
  std::string row = fmt::format("{:<5}{:>10}{:>7}{:>12}{:>12}{:>9}{:>11}{:>11}{:>12}{:>8}", "", "block", "depth",
                                "store", "drive", "of it", "p99", "drive's", "file each", "times");
  for (const PeerBlocks& peer : report.peers) row += fmt::format("{:>12}{:>8}", peer.name, "times");
  return row + "\n";
}

std::string case_row(const StoreCase& one) {
  const auto beside = [&one](const std::vector<StoreSample>& peer) {
    return fmt::format("{:>12}{:>8}", cell(rate(peer)),
                       peer.empty() ? std::string("-") : fmt::format("{:.1f}x", ratio(one.store, peer)));
  };
  std::string row =
      fmt::format("{:<5}{:>10}{:>7}{:>12}{:>12}{:>8.0f}%{:>8.0f} us{:>8.0f} us{}", one.put ? "put" : "get",
                  format_size(one.block_bytes), one.depth, cell(rate(one.store)), cell(rate(one.drive)),
                  100 * ratio(one.store, one.drive), p99(one.store), p99(one.drive), beside(one.files));
  for (const auto& peer : one.peers) row += beside(peer);
  return row + "\n";
}

double cpu_beside_checksum(const StoreCase& one) {
  return median_of(one.store, &StoreSample::cpu_us) - one.checksum_us;
}

}  // namespace

std::string store_bench_text(const StoreBenchReport& report) {
  std::string text = title_row(report);
  for (const StoreCase& one : report.cases) text += case_row(one);
  text += fmt::format("\nreads of 128 KiB, p99: {:.0f} us alone, {:.0f} us beside puts without end\n",
                      report.get_p99_idle_us, report.get_p99_beside_us);
  for (const StoreCase& one : report.cases) {
    if (one.put || one.block_bytes != 128 * KiB) continue;
    const double drive = median_of(one.drive, &StoreSample::cpu_us);
    text += fmt::format("a get of 128 KiB at depth {}: {:.0f} us of processor time beside the checksum ({:.0f} us){}\n",
                        one.depth, cpu_beside_checksum(one), one.checksum_us,
                        drive > 0 ? fmt::format(", a read of the drive alone {:.0f} us", drive) : "");
  }
  text += fmt::format("{} blocks were wrong, {} not there; {} segments were reclaimed; the drive by {}\n", report.wrong,
                      report.missing, report.reclaimed, report.drive_by);
  for (const PeerBlocks& peer : report.peers) {
    if (peer.wrong + peer.missing == 0) continue;
    text += fmt::format("{}: {} blocks were wrong, {} not there\n", peer.name, peer.wrong, peer.missing);
  }
  return text;
}

std::string store_bench_json(const StoreBenchReport& report) {
  nlohmann::json cases = nlohmann::json::array(), peers = nlohmann::json::array();
  for (const PeerBlocks& peer : report.peers) {
    peers.push_back({{"name", peer.name}, {"wrong", peer.wrong}, {"missing", peer.missing}});
  }
  for (const StoreCase& one : report.cases) {
    nlohmann::json rates = nlohmann::json::object();
    for (std::size_t peer = 0; peer < one.peers.size(); ++peer) rates[report.peers[peer].name] = rate(one.peers[peer]);
    cases.push_back({{"op", one.put ? "put" : "get"},
                     {"block_bytes", one.block_bytes},
                     {"depth", one.depth},
                     {"store_bytes_per_second", rate(one.store)},
                     {"drive_bytes_per_second", rate(one.drive)},
                     {"files_bytes_per_second", rate(one.files)},
                     {"peers_bytes_per_second", rates},
                     {"of_drive", ratio(one.store, one.drive)},
                     {"store_p99_us", p99(one.store)},
                     {"drive_p99_us", p99(one.drive)},
                     {"cpu_us", one.put ? 0 : cpu_beside_checksum(one)},
                     {"checksum_us", one.checksum_us},
                     {"drive_cpu_us", median_of(one.drive, &StoreSample::cpu_us)}});
  }
  const nlohmann::json all{{"drive_by", report.drive_by},
                           {"cases", cases},
                           {"get_p99_idle_us", report.get_p99_idle_us},
                           {"get_p99_beside_us", report.get_p99_beside_us},
                           {"segments_reclaimed", report.reclaimed},
                           {"wrong", report.wrong},
                           {"missing", report.missing},
                           {"files_wrong", report.files_wrong},
                           {"peers", peers}};
  return all.dump();
}

std::vector<GoalFigure> store_bench_figures(const StoreBenchReport& report) {
  std::optional<double> get, put, peer_get, peer_put, p99_over, cpu;
  const auto least = [](std::optional<double>& of, double value) { of = of ? std::min(*of, value) : value; };
  for (const StoreCase& one : report.cases) {
    if (!one.drive.empty()) least(one.put ? put : get, 100 * ratio(one.store, one.drive));
    if (const auto figure = against_peer(one)) least(one.put ? peer_put : peer_get, *figure);
    if (!one.put && p99(one.drive) > 0) {
      p99_over = std::max(p99_over.value_or(0), p99(one.store) / p99(one.drive));
    }
    if (!one.put && one.block_bytes == 128 * KiB) cpu = std::max(cpu.value_or(0), cpu_beside_checksum(one));
  }
  std::optional<double> beside;
  if (report.get_p99_idle_us > 0) beside = report.get_p99_beside_us / report.get_p99_idle_us;
  return {{.name = "store.get.drive", .figure = get},
          {.name = "store.get.p99", .figure = p99_over},
          {.name = "store.put.drive", .figure = put},
          {.name = "store.get.beside", .figure = beside},
          {.name = "store.get.peers", .figure = peer_get},
          {.name = "store.put.peers", .figure = peer_put},
          {.name = "store.cpu", .figure = cpu},
          {.name = "store.wrong", .figure = static_cast<double>(report.wrong + report.missing)}};
}

}  // namespace artesian::bench
