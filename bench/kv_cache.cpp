#include "bench/kv_cache.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <list>
#include <set>
#include <tuple>

#include "policy/kv_shared.h"

namespace artesian::bench {

namespace {

constexpr std::uint32_t block_pages = 256;  // any size will do: all blocks have it
constexpr std::size_t never = std::numeric_limits<std::size_t>::max();

// Hits of a prompt, counted; `stored` answers for a block.
template <typename Stored>
std::size_t count_hits(const KvTrace& trace, const KvRequest& request, KvCount& count, Stored&& stored) {
  std::size_t hits = 0;
  while (hits < request.blocks.size() && stored(request.blocks[hits])) ++hits;
  count.hits += hits;
  count.uses += request.blocks.size();
  if (request.when > trace.requests.back().when / 2) {
    count.late_hits += hits;
    count.late_uses += request.blocks.size();
  }
  return hits;
}

}  // namespace

KvCount kv_lru(const KvTrace& trace, std::size_t capacity) {
  KvCount count;
  std::list<std::uint32_t> order;  // wanted last at the back
  std::vector<std::list<std::uint32_t>::iterator> places(trace.distinct, order.end());
  for (const KvRequest& request : trace.requests) {
    count_hits(trace, request, count, [&](std::uint32_t block) { return places[block] != order.end(); });
    for (auto block = request.blocks.rbegin(); block != request.blocks.rend(); ++block) {
      if (places[*block] != order.end()) {
        order.splice(order.end(), order, places[*block]);
        continue;
      }
      if (order.size() >= capacity) {
        places[order.front()] = order.end();
        order.pop_front();
      }
      places[*block] = order.insert(order.end(), *block);
      ++count.written;
    }
  }
  return count;
}

namespace {

class S3Fifo {
 public:
  S3Fifo(std::size_t capacity, std::size_t distinct)
      : capacity_(capacity),
        small_max_(std::max<std::size_t>(capacity / 10, 1)),
        uses_(distinct, -1),
        ghost_(distinct, 0) {}

  bool stored(std::uint32_t block) const { return uses_[block] >= 0; }

  bool want(std::uint32_t block) {  // whether it was written
    if (stored(block)) {
      uses_[block] = std::min(uses_[block] + 1, 3);
      return false;
    }
    while (small_.size() + main_.size() >= capacity_) {
      if (small_.size() >= small_max_ || main_.empty()) {
        evict_small();
      } else {
        evict_main();
      }
    }
    uses_[block] = 0;
    (ghost_[block] != 0 ? main_ : small_).push_back(block);
    if (ghost_[block] != 0) forget(block);
    return true;
  }

 private:
  void evict_main() {
    while (uses_[main_.front()] > 0) {
      const std::uint32_t block = main_.front();
      --uses_[block];
      main_.pop_front();
      main_.push_back(block);
    }
    uses_[main_.front()] = -1;
    main_.pop_front();
  }

  void evict_small() {
    const std::uint32_t block = small_.front();
    small_.pop_front();
    if (uses_[block] > 0) {
      uses_[block] = 0;
      main_.push_back(block);
      if (main_.size() > capacity_ - small_max_) evict_main();
      return;
    }
    uses_[block] = -1;
    ghosts_.push_back({block, ++stamp_});
    ghost_[block] = stamp_;
    ++ghosts_alive_;
    while (ghosts_alive_ > capacity_) {
      const auto [oldest, stamp] = ghosts_.front();
      ghosts_.pop_front();
      if (ghost_[oldest] == stamp) forget(oldest);
    }
  }

  void forget(std::uint32_t block) {
    ghost_[block] = 0;
    --ghosts_alive_;
  }

  std::size_t capacity_, small_max_;
  std::vector<int> uses_;             // since written, at most 3; -1: not stored
  std::vector<std::uint64_t> ghost_;  // stamp of the ghost; 0: none
  std::deque<std::uint32_t> small_, main_;
  std::deque<std::pair<std::uint32_t, std::uint64_t>> ghosts_;
  std::size_t ghosts_alive_ = 0;
  std::uint64_t stamp_ = 0;
};

}  // namespace

KvCount kv_s3_fifo(const KvTrace& trace, std::size_t capacity) {
  KvCount count;
  S3Fifo cache(capacity, trace.distinct);
  for (const KvRequest& request : trace.requests) {
    count_hits(trace, request, count, [&](std::uint32_t block) { return cache.stored(block); });
    for (const std::uint32_t block : request.blocks) count.written += cache.want(block) ? 1 : 0;
  }
  return count;
}

KvCount kv_optimum(const KvTrace& trace, std::size_t capacity) {
  std::vector<std::size_t> later(trace.distinct, never);
  std::vector<std::vector<std::size_t>> next(trace.requests.size());
  for (std::size_t i = trace.requests.size(); i-- > 0;) {
    for (const std::uint32_t block : trace.requests[i].blocks) {
      next[i].push_back(later[block]);
      later[block] = i;
    }
  }
  KvCount count;
  std::set<std::tuple<std::size_t, std::size_t, std::uint32_t>> stored;  // next use, position, block
  std::vector<std::pair<std::size_t, std::size_t>> place(trace.distinct, {never, 0});
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    const KvRequest& request = trace.requests[i];
    count_hits(trace, request, count, [&](std::uint32_t block) { return place[block].first != never; });
    for (std::size_t j = 0; j < request.blocks.size(); ++j) {
      const std::uint32_t block = request.blocks[j];
      const bool there = place[block].first != never;
      if (there) stored.erase({place[block].first, place[block].second, block});
      place[block] = {never, 0};
      if (next[i][j] == never) continue;
      if (stored.size() >= capacity) {
        const auto last = std::prev(stored.end());
        if (std::get<0>(*last) <= next[i][j]) continue;
        place[std::get<2>(*last)] = {never, 0};
        stored.erase(last);
      }
      stored.insert({next[i][j], j, block});
      place[block] = {next[i][j], j};
      count.written += there ? 0 : 1;
    }
  }
  return count;
}

namespace {

KeyHash key_of(std::uint32_t block) {
  const std::uint64_t mixed = (block + 1ULL) * 0x9E3779B97F4A7C15ULL;
  return {mixed ^ (mixed >> 32), block + 1ULL};
}

class PolicyCache {
 public:
  PolicyCache(const KvTrace& trace, const KvPolicyRun& run)
      : run_(run),
        shared_{.budget = KvBudget(
                    {.bytes_per_day = kv_bytes_per_day(trace, run.budget_blocks, std::uint64_t{block_pages} * 4096)})},
        admission_(run.admission->make({}, shared_)),
        stored_(trace.distinct, false),
        states_(trace.distinct, 0),
        facts_(trace.distinct),
        listed_(trace.distinct, false) {
    if (run.eviction != nullptr) eviction_ = run.eviction->make({}, shared_);
  }

  bool stored(std::uint32_t block) const { return stored_[block]; }

  void want(const KvRequest& request, KvCount& count) {
    const auto blocks = describe(request);
    admission_->on_prompt(blocks, request.when);
    for (std::size_t i = 0; i < request.blocks.size(); ++i) {
      const std::uint32_t block = request.blocks[i];
      if (stored_[block]) touch(block, request.when);
    }
    ranks_.clear();
    for (std::size_t i = 0; i < request.blocks.size(); ++i) {
      const std::uint32_t block = request.blocks[i];
      if (stored_[block]) continue;
      facts_[block].parent_stored = i == 0 || stored_[request.blocks[i - 1]];
      if (!admission_->admit(facts_[block], request.when)) continue;
      ++count.written;
      if (eviction_) {
        append(block, request.when, count);
      } else {
        if (live_ >= run_.capacity) evict_block(request.when, request.blocks.size());
        put(block, request.when);
        if (!listed_[block]) residents_.push_back(block);
        listed_[block] = true;
        ++live_;
      }
    }
  }

 private:
  std::vector<KvFacts> describe(const KvRequest& request) {
    std::vector<KvFacts> blocks;
    for (std::size_t i = 0; i < request.blocks.size(); ++i) {
      const auto tokens = std::min<std::uint64_t>(kv_block_tokens, request.tokens - i * kv_block_tokens);
      KvFacts& facts = facts_[request.blocks[i]];
      facts.key = key_of(request.blocks[i]);
      facts.parent = i == 0 ? KeyHash{} : key_of(request.blocks[i - 1]);
      facts.pages = block_pages;
      facts.position = static_cast<std::uint32_t>(i);
      facts.partial = tokens < kv_block_tokens;
      blocks.push_back(facts);
    }
    return blocks;
  }

  void touch(std::uint32_t block, Nanos now) {
    states_[block] = eviction_       ? eviction_->on_hit(facts_[block], states_[block], now)
                     : run_.by_worth ? shared_.reuse.state(facts_[block].key, now)
                                     : KvReuse::touched(0, now);
  }

  void put(std::uint32_t block, Nanos now) {
    stored_[block] = true;
    states_[block] = eviction_       ? eviction_->on_put(facts_[block], now)
                     : run_.by_worth ? shared_.reuse.state(facts_[block].key, now)
                                     : KvReuse::touched(0, now);
  }

  // Ranks what is stored, as many as a prompt can push out at a time; what the prompt itself brings comes in later.
  void evict_block(Nanos now, std::size_t at_once) {
    if (ranks_.empty()) {
      std::erase_if(residents_, [&](std::uint32_t block) {
        if (!stored_[block]) listed_[block] = false;
        return !stored_[block];
      });
      for (const std::uint32_t block : residents_) {
        const double worth =
            run_.by_worth ? shared_.reuse.worth(states_[block], now) : static_cast<double>(states_[block]);
        ranks_.push_back({worth, facts_[block].position, block});
      }
      const auto less = [](const Rank& a, const Rank& b) {  // of equals the deepest first
        return a.worth != b.worth ? a.worth < b.worth : a.position > b.position;
      };
      const auto keep = std::min(at_once, ranks_.size());
      std::ranges::partial_sort(ranks_, ranks_.begin() + static_cast<std::ptrdiff_t>(keep), less);
      ranks_.resize(keep);
      std::ranges::reverse(ranks_);
    }
    stored_[ranks_.back().block] = false;
    ranks_.pop_back();
    --live_;
  }

  void append(std::uint32_t block, Nanos now, KvCount& count) {
    put(block, now);
    push(block);
    while (live_ + run_.segment_blocks > run_.capacity && !sealed_.empty()) reclaim(now, count);
  }

  void push(std::uint32_t block) {
    open_.push_back(block);
    ++live_;
    if (open_.size() >= run_.segment_blocks) {
      sealed_.push_back(std::move(open_));
      open_.clear();
    }
  }

  void reclaim(Nanos now, KvCount& count) {
    const std::vector<std::uint32_t> blocks = std::move(sealed_.front());
    sealed_.pop_front();
    live_ -= blocks.size();
    std::vector<KvFacts> facts;
    std::vector<std::uint64_t> states;
    for (const std::uint32_t block : blocks) {
      facts.push_back(facts_[block]);
      // key_of() counts from 1 in `high`
      facts.back().parent_stored = facts.back().parent.none() || stored_[facts.back().parent.high - 1];
      states.push_back(states_[block]);
    }
    std::vector<bool> carried;
    eviction_->carry(facts, states, (blocks.size() - 1) * block_pages, now, carried);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (!carried[i]) {
        stored_[blocks[i]] = false;
        continue;
      }
      states_[blocks[i]] = states[i];
      push(blocks[i]);
      ++count.written;
      ++count.carried;
    }
  }

  struct Rank {
    double worth;
    std::uint32_t position, block;
  };
  KvPolicyRun run_;
  KvShared shared_;
  std::unique_ptr<KvAdmission> admission_;
  std::unique_ptr<KvEviction> eviction_;  // of segments; null: block by block
  std::vector<bool> stored_;
  std::vector<std::uint64_t> states_;
  std::vector<KvFacts> facts_;
  std::size_t live_ = 0;
  std::vector<Rank> ranks_;
  std::vector<std::uint32_t> residents_;           // what is stored, and what was and is to be struck out
  std::vector<bool> listed_;                       // in residents_
  std::deque<std::vector<std::uint32_t>> sealed_;  // the one that was opened first in front
  std::vector<std::uint32_t> open_;
};

}  // namespace

std::uint64_t kv_bytes_per_day(const KvTrace& trace, std::uint64_t blocks, std::uint64_t block_bytes) {
  const std::chrono::duration<double> burst = KvBudgetSettings{}.burst;
  const std::chrono::duration<double> whole = trace.requests.back().when - trace.requests.front().when;
  return static_cast<std::uint64_t>(static_cast<double>(blocks * block_bytes) * 86'400 / (whole + burst).count());
}

KvCount kv_policy(const KvTrace& trace, const KvPolicyRun& run, const KvProgress& progress) {
  KvCount count;
  PolicyCache cache(trace, run);
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    const KvRequest& request = trace.requests[i];
    count_hits(trace, request, count, [&](std::uint32_t block) { return cache.stored(block); });
    cache.want(request, count);
    if (progress && i % 256 == 0) progress(static_cast<double>(i) / static_cast<double>(trace.requests.size()));
  }
  return count;
}

}  // namespace artesian::bench
