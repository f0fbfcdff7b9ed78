// An index of 10 million blocks: bytes a block, lookups a second, and how long each call takes while segments are
// reclaimed and the table grows. Every answer is checked. Conversations are chains of 64 blocks; every tenth branches
// off a shared prefix.
#include "store/block_index.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>

namespace artesian {
namespace {

constexpr std::uint64_t blocks_goal = 10'000'000;
constexpr std::uint64_t blocks_max = 12'000'000;
constexpr std::uint32_t segment_blocks = 8192;  // 512 MiB of blocks of 64 KiB
constexpr std::uint32_t segments_max = 4096;
constexpr std::uint64_t chain = 64;

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

KeyHash key_of(std::uint64_t number) {
  return {mix(2 * number + 1), mix(mix(number) + 0x9e3779b97f4a7c15ULL)};
}

KeyHash parent_of(std::uint64_t number) {
  if (number % chain != 0) return key_of(number - 1);
  return number % (10 * chain) == 0 && number != 0 ? key_of(chain - 1) : KeyHash{};
}

void require(bool holds) {
  if (!holds) std::abort();
}

std::uint64_t resident_bytes() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm").ignore(32, ' ') >> pages;
  return pages * 4096;
}

// Blocks `first` … `next` − 1 are there, in segments of segment_blocks in order of number.
struct Filled {
  Filled() : resident_before(resident_bytes()) {
    auto made = BlockIndex::create(blocks_max, segments_max);
    require(made.has_value());
    index = std::make_unique<BlockIndex>(std::move(*made));
  }
  static BlockLocation location(std::uint64_t number) {
    return {.segment = static_cast<std::uint32_t>(number / segment_blocks % segments_max),
            .page = static_cast<std::uint32_t>(number % segment_blocks * 17),
            .pages = 17,
            .header_pages = 1};
  }
  void insert() {
    const std::uint64_t number = next++;
    require(index->insert(key_of(number), parent_of(number), {location(number), number}).has_value());
  }

  std::uint64_t resident_before;
  std::unique_ptr<BlockIndex> index;
  std::uint64_t first = 0, next = 0;
};

Filled& filled() {
  static Filled all;
  return all;
}

class Times {
 public:
  explicit Times(std::size_t count) { times_.reserve(count); }
  template <typename Call>
  void time(Call&& call) {
    const auto start = std::chrono::steady_clock::now();
    call();
    times_.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  double at(double share) {
    const auto place = times_.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(times_.size() - 1));
    std::ranges::nth_element(times_, place);
    return *place;
  }

 private:
  std::vector<double> times_;
};

void fill(benchmark::State& state) {
  Filled& all = filled();
  Times times(blocks_goal);
  for (auto _ : state) {
    while (all.index->size() < blocks_goal) times.time([&] { all.insert(); });
  }
  const auto count = static_cast<double>(all.index->size());
  state.counters["insert_p99_us"] = times.at(.99);
  state.counters["insert_max_us"] = times.at(1);
  state.counters["inserts_a_second"] = benchmark::Counter(count, benchmark::Counter::kIsRate);
  state.counters["bytes_a_block"] = static_cast<double>(all.index->bytes()) / count;
  // The times are ours, not the index's.
  const std::uint64_t grown = resident_bytes() - all.resident_before - blocks_goal * sizeof(double);
  state.counters["resident_bytes_a_block"] = static_cast<double>(grown) / count;
}
BENCHMARK(fill)->Iterations(1)->Unit(benchmark::kMillisecond);

void find_hit(benchmark::State& state) {
  const Filled& all = filled();
  std::mt19937_64 random(1);
  for (auto _ : state) {
    const std::uint64_t number = all.first + random() % (all.next - all.first);
    const auto found = all.index->find(key_of(number));
    require(found && found->policy == number);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(find_hit);

void find_miss(benchmark::State& state) {
  const Filled& all = filled();
  std::mt19937_64 random(1);
  for (auto _ : state) require(!all.index->find(key_of(random() | 1ULL << 63)));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(find_miss);

// The oldest segment is reclaimed, one block in eight of it carried forward (and erased one round later), 16 blocks a
// step; as many blocks come as go and one in eight more, so that the table grows; between steps, lookups.
void calls_beside_reclaim_and_growth(benchmark::State& state) {
  Filled& all = filled();
  constexpr std::size_t steps = 60'000;
  Times lookups(steps * 16), inserts(steps * 18), reclaims(steps * 17);
  std::mt19937_64 random(1);
  std::vector<IndexedBlock> some;
  BlockIndex::SegmentCursor cursor;
  std::uint32_t segment = 0;
  const std::uint64_t bytes_before = all.index->bytes();
  for (auto _ : state) {
    for (std::size_t step = 0; step < steps; ++step) {
      some.clear();
      reclaims.time([&] { all.index->blocks_of(segment, cursor, 16, some); });
      if (some.empty()) {
        ++segment;
        cursor = {};
      }
      for (const IndexedBlock& block : some) {
        const bool carry = block.entry.policy % 8 == 0;
        BlockLocation to = block.entry.location;
        to.segment = segments_max - 1 - segment % 8;
        reclaims.time([&] {
          require(carry ? all.index->move(block.key, block.entry.location, to).has_value()
                        : all.index->erase_at(block.key, block.entry.location));
        });
      }
      for (int i = 0; i < 18; ++i) inserts.time([&] { all.insert(); });
      for (int i = 0; i < 16; ++i) {
        // Of the newest blocks: those are there for certain.
        const std::uint64_t number = all.next - 1 - random() % (blocks_goal / 2);
        const KeyHash key = key_of(number);
        lookups.time([&] {
          const auto found = all.index->find(key);
          require(found && found->policy == number);
        });
      }
    }
  }
  state.counters["lookup_p99_us"] = lookups.at(.99);
  state.counters["lookup_p999_us"] = lookups.at(.999);
  state.counters["insert_p99_us"] = inserts.at(.99);
  state.counters["reclaim_p99_us"] = reclaims.at(.99);
  state.counters["grew_by_bytes"] = static_cast<double>(all.index->bytes() - bytes_before);
  state.counters["bytes_a_block"] = static_cast<double>(all.index->bytes()) / static_cast<double>(all.index->size());
}
BENCHMARK(calls_beside_reclaim_and_growth)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace artesian
