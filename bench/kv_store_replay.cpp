#include "bench/kv_store_replay.h"

#include <algorithm>
#include <cstring>

#include "platform/arena.h"
#include "store/store_files.h"

namespace artesian::bench {

namespace {

constexpr std::uint64_t record_pages_more = 1;  // the header of a block

// The scratch file goes with it.
class Scratch {
 public:
  explicit Scratch(std::filesystem::path file) : file_(std::move(file)) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove(file_, ignored);
  }
  std::string name() const { return file_.string(); }

 private:
  std::filesystem::path file_;
};

// Bytes of a block that are no other's.
void fill(std::uint32_t block, std::span<std::byte> out) {
  std::uint64_t state = (block + 1ULL) * 0x9E3779B97F4A7C15ULL;
  for (std::size_t at = 0; at + 8 <= out.size(); at += 8) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    std::memcpy(out.data() + at, &state, 8);
  }
}

class StoreReplay {
 public:
  StoreReplay(Store& store, NamespaceId ns, ManualClock& clock, const KvTrace& trace, Arena memory, Arena expected)
      : store_(store),
        ns_(ns),
        clock_(clock),
        half_(trace.requests.back().when / 2),
        memory_(std::move(memory)),
        expected_(std::move(expected)) {}

  Status want(const KvRequest& request) {
    clock_.advance_to(request.when);
    const std::size_t whole = request.tokens / kv_block_tokens;  // nobody keys the end of a prompt
    std::vector<std::span<const std::byte>> keys;
    for (const std::uint32_t& block : std::span(request.blocks).first(whole)) {
      keys.push_back(std::as_bytes(std::span(&block, 1)));
    }
    const std::size_t there = store_.longest_prefix(ns_, keys);
    for (std::size_t i = 0; i < there; ++i) {
      if (auto read = get(request.blocks[i], keys[i]); !read) return read;
    }
    for (std::size_t i = there; i < whole; ++i)
      put(request.blocks[i], keys[i], i == 0 ? keys[i].first(0) : keys[i - 1], i);
    const bool late = request.when > half_;
    count.hits += there;
    count.uses += request.blocks.size();
    count.late_hits += late ? there : 0;
    count.late_uses += late ? request.blocks.size() : 0;
    return {};
  }

  KvCount count;

 private:
  Status get(std::uint32_t block, std::span<const std::byte> key) {
    Get item{.key = key, .buffer = memory_.span()};
    store_.get(ns_, std::span(&item, 1));
    fill(block, expected_.span());
    if (item.outcome == Outcome::hit && std::ranges::equal(memory_.span(), expected_.span())) return {};
    return fail(Code::corrupt, "block {} was there and did not come back whole: {}", block, outcome_name(item.outcome));
  }

  void put(std::uint32_t block, std::span<const std::byte> key, std::span<const std::byte> parent,
           std::size_t position) {
    fill(block, memory_.span());
    Put item{.key = key,
             .parent = parent,
             .data = memory_.span(),
             .hints = {.position = static_cast<std::uint32_t>(position), .tokens = kv_block_tokens}};
    store_.put(ns_, std::span(&item, 1));
  }

  Store& store_;
  NamespaceId ns_;
  ManualClock& clock_;
  Nanos half_;
  Arena memory_, expected_;
};

Result<KvCount> replay_one(const KvTrace& trace, const KvStoreReplaySettings& settings, std::size_t capacity,
                           const std::string& policy, std::uint64_t budget_blocks, const KvProgress& progress) {
  const Scratch scratch(settings.folder / "artesian-replay.store");
  const std::uint64_t pages = pages_of(settings.block_bytes) + record_pages_more;
  const std::uint64_t record_bytes = pages * store_page;
  const std::uint64_t in_segment = settings.replay.segment_blocks;
  const std::uint64_t segment_pages = 2 + in_segment * pages + index_pages_of(in_segment);
  ManualClock clock;
  StoreFilesOptions options{.geometry = {.segment_bytes = align_up(segment_pages * store_page, 64 * KiB),
                                         .block_bytes_max = settings.block_bytes},
                            .clock = &clock};
  options.paths.push_back({scratch.name(), 0});
  options.paths.front().bytes = store_cap_of(options.geometry, capacity / in_segment);
  options.engine.write_bytes_per_day = kv_bytes_per_day(trace, budget_blocks, record_bytes);
  if (auto made = create_store(options, true); !made) return fail(std::move(made.error()));
  auto store = open_store(options);
  if (!store) return fail(std::move(store.error()));
  const auto ns = (*store)->open_namespace(
      {.model = "replay", .weights = "none", .block_tokens = kv_block_tokens, .policy = policy});
  if (!ns) return fail(ns.error());
  auto memory = Arena::reserve(settings.block_bytes);
  auto expected = Arena::reserve(settings.block_bytes);
  if (!memory || !expected) return fail(Code::rejected, "there is no memory for a block of {}", settings.block_bytes);
  StoreReplay replay(**store, *ns, clock, trace, std::move(*memory), std::move(*expected));
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    if (auto wanted = replay.want(trace.requests[i]); !wanted) return fail(std::move(wanted.error()));
    if (progress && i % 64 == 0) progress(static_cast<double>(i) / static_cast<double>(trace.requests.size()));
  }
  if (auto flushed = (*store)->flush(); !flushed) return fail(std::move(flushed.error()));
  const StoreStats stats = (*store)->stats();
  replay.count.written = stats.bytes_written / record_bytes;
  replay.count.carried = stats.bytes_carried / record_bytes;
  return replay.count;
}

}  // namespace

Result<std::vector<KvReplayCase>> replay_kv_store(const KvTrace& trace, const KvStoreReplaySettings& settings,
                                                  const std::function<void(double part)>& progress) {
  std::vector<KvReplayCase> cases;
  const auto runs = static_cast<double>(settings.replay.capacities.size() * settings.policies.size());
  double done = 0;
  for (const std::size_t capacity : settings.replay.capacities) {
    if (auto checked = check_kv_capacity(capacity, settings.replay); !checked) return fail(std::move(checked.error()));
    KvReplayCase run{capacity, {}};
    const KvCount lru = kv_lru(trace, capacity);
    run.rows.push_back(kv_replay_row("lru", "blocks, no store", lru, lru.written));
    const auto budget = static_cast<std::uint64_t>(settings.replay.budget_of_lru * static_cast<double>(lru.written));
    for (const std::string& policy : settings.policies) {
      const auto count = replay_one(trace, settings, capacity, policy, budget, [&](double part) {
        if (progress) progress((done + part) / runs);
      });
      if (!count) return fail(count.error());
      run.rows.push_back(kv_replay_row(policy, fmt::format("store, {} a segment", settings.replay.segment_blocks),
                                       *count, lru.written));
      ++done;
    }
    cases.push_back(std::move(run));
  }
  return cases;
}

}  // namespace artesian::bench
