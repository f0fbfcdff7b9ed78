// The ways to keep blocks that `artesian bench store` compares.
//
// Threads: one caller; file_blocks uses threads of the executor handed in. Blocks are told apart by number; their bytes
// come from one pattern, so that nothing has to be made while time is taken.
#pragma once

#include <memory>
#include <string>

#include "artesian/store.h"
#include "base/executor.h"
#include "bench/store_measure.h"
#include "platform/arena.h"

namespace artesian::bench {

// The bytes of every block: a window on random bytes that begins at another page for each.
class BlockPattern {
 public:
  static Result<BlockPattern> make(std::uint64_t block_bytes);
  std::span<std::byte> of(std::uint64_t number) const {
    return memory_.span().subspan(number % windows * page, block_bytes_);
  }
  bool first_page_is(std::uint64_t number, std::span<const std::byte> bytes) const;

 private:
  static constexpr std::uint64_t page = 4 * KiB, windows = 251;
  BlockPattern() = default;
  Arena memory_;
  std::uint64_t block_bytes_ = 0;
};

// What a measurement goes on for.
struct Span {
  double seconds = 0;        // 0: until all blocks were taken
  std::uint64_t blocks = 0;  // in all
};

struct Tally {
  std::uint64_t bytes = 0, blocks = 0;
  std::uint64_t wrong = 0, missing = 0;
  Nanos time{0};
  std::vector<double> latencies_us;
  StoreSample sample() const;
};

// Blocks in the store: numbers from `first` on are put, random ones below `count` are read.
Result<Tally> store_puts(Store& store, NamespaceId ns, const BlockPattern& pattern, std::uint64_t first,
                         std::uint64_t count, std::uint32_t depth);
Result<Tally> store_gets(Store& store, NamespaceId ns, const BlockPattern& pattern, std::uint64_t block_bytes,
                         std::uint64_t first, std::uint64_t count, std::uint32_t depth, double seconds,
                         const std::function<void()>& between = {});

// How many of the first `count` blocks are pinned now.
std::uint64_t store_pins(Store& store, NamespaceId ns, std::uint64_t count);

// The same as one file a block, in `folder`.
Result<Tally> file_puts(const std::string& folder, const BlockPattern& pattern, std::uint64_t count,
                        std::uint32_t depth, Executor& executor, const Clock& clock);
Result<Tally> file_gets(const std::string& folder, const BlockPattern& pattern, std::uint64_t block_bytes,
                        std::uint64_t count, std::uint32_t depth, double seconds, Executor& executor,
                        const Clock& clock);

// Runs `work(worker, tally)` on as many threads as workers, and adds up.
Result<Tally> on_threads(std::uint32_t workers, Executor& executor,
                         const std::function<Status(std::uint32_t, Tally&)>& work);

// Another store, by a program of bench/peers: `count` blocks are put, or random ones of them read for so many seconds.
struct PeerRun {
  std::vector<std::string> command;  // the program and its first arguments
  std::string folder;
  bool put = false;
  std::uint64_t block_bytes = 0, count = 0;
  std::uint32_t depth = 1;
  double seconds = 1;
};
struct PeerSample {
  StoreSample sample;
  std::uint64_t wrong = 0, missing = 0;
};
Result<PeerSample> peer_run(const PeerRun& run, const Clock& clock);

// The drive alone: reads at random places of a file, or writes from its start on; by fio if it is named.
struct DriveRun {
  std::string file, fio;
  bool write = false;
  std::uint64_t request_bytes = 0;
  std::uint32_t depth = 1;
  double seconds = 1;
};
Result<StoreSample> drive_alone(const DriveRun& run, const Clock& clock);

}  // namespace artesian::bench
