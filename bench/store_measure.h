// What `artesian bench store` measures: blocks written and read by the store, beside the drive alone with the same
// requests on the same file, beside one file per block with rename, as tiers of engines have it, and beside other
// stores (bench/peers). In turns, so that a drive that changes its mind changes it for all.
//
// Every value that is read is checked: by the store as always, and its first page against what was put.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/units.h"
#include "bench/goals.h"
#include "store/store_files.h"

namespace artesian::bench {

// Another store, by a program of bench/peers.
struct StorePeer {
  std::string name;                  // as tables have it
  std::vector<std::string> command;  // the program and its first arguments; empty: it is not there
};

struct StoreBenchOptions {
  std::string folder;             // scratch files are made there, and removed
  std::uint64_t bytes = 2 * GiB;  // of the store, and of blocks of one size
  std::vector<std::uint64_t> block_bytes;
  std::vector<std::uint32_t> depths;
  double seconds = 1;            // of one measurement of reads
  unsigned rounds = 3;           // each takes all subjects in turn
  bool files = true;             // one file per block is measured
  std::vector<StorePeer> peers;  // and these
  std::string key_file;          // the store is encrypted with that key; empty: it is not
  // How a store is opened; none: by open_store(). What is measured may be one that another owns.
  std::function<Result<std::shared_ptr<Store>>(const StoreFilesOptions&)> open;
  std::string fio;  // the program; empty: the drive alone is measured by our own loop
  std::function<void(double part, std::string_view what)> progress;
  std::function<void(std::string_view)> report;
};

// One measurement.
struct StoreSample {
  double bytes_per_second = 0;
  double p99_us = 0;  // 0: not known
  double cpu_us = 0;  // processor time a read, of the store's with its checksum; 0: not known
};

struct StoreCase {
  bool put = false;
  std::uint64_t block_bytes = 0;
  std::uint32_t depth = 0;                       // of a put: how many are under way
  std::vector<StoreSample> store, drive, files;  // one a round
  std::vector<std::vector<StoreSample>> peers;   // as the report has them; none of one that is not there
  double checksum_us = 0;                        // of a block that lies in no cache: processor time
};

struct PeerBlocks {
  std::string name;
  std::uint64_t wrong = 0, missing = 0;
};

struct StoreBenchReport {
  std::string drive_by;  // "fio" or "our own loop"
  std::vector<StoreCase> cases;
  double get_p99_idle_us = 0, get_p99_beside_us = 0;  // reads of 128 KiB alone, and beside sustained puts
  std::uint64_t reclaimed = 0;                        // segments, while puts were measured
  std::uint64_t wrong = 0, missing = 0;               // blocks
  std::uint64_t files_wrong = 0;
  std::vector<PeerBlocks> peers;
};

Result<StoreBenchReport> measure_store(const StoreBenchOptions& options, const Clock& clock);

std::string store_bench_text(const StoreBenchReport& report);
std::string store_bench_json(const StoreBenchReport& report);
// For the goals of section "store".
std::vector<GoalFigure> store_bench_figures(const StoreBenchReport& report);

}  // namespace artesian::bench
