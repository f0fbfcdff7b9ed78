// Dense weights larger than memory: a pinned part stays, the rest streams through a ring in the order of use, always
// ahead of the compute. The order is the plan's at first and learned from the first pass.
//
// Threads: one caller at a time. Borrows model, plan, arena and loader.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "format/gguf_model.h"
#include "platform/arena.h"
#include "stream/loader.h"
#include "stream/plan.h"

namespace artesian {

struct DenseCounters {
  std::uint64_t hits = 0;    // uses of a pinned tensor, or of one that had arrived
  std::uint64_t misses = 0;  // uses that waited
};

class DenseStream {
 public:
  // `may_commit`: may so many bytes that were not committed be taken now? Empty: always. A tensor that may not be
  // pinned yet is streamed.
  DenseStream(const GgufModel& model, const WeightPlan& plan, Arena& arena, Loader& loader,
              std::function<bool(std::uint64_t bytes)> may_commit);

  // Whether acquire() would not wait, and others may stay acquired meanwhile: a quarter of the ring at most, so that
  // there is room to read ahead.
  bool at_hand(std::uint32_t tensor);
  // The tensor's bytes, whole and in place until release(); waits for them. Several may be acquired at once, each once,
  // as long as they were at hand.
  Result<std::byte*> acquire(std::uint32_t tensor);
  void release(std::uint32_t tensor);

  // Gives back at least `bytes` of pinned tensors if it can: they are streamed until there is memory again. Returns how
  // many. Not between acquire() and release().
  std::uint64_t shrink(std::uint64_t bytes);

  std::uint64_t pinned_bytes() const;
  const DenseCounters& counters() const { return counters_; }

 private:
  struct Pinned {
    std::uint64_t base = 0;
    bool started = false;
    Load load;
  };
  struct Entry {
    std::uint32_t tensor = 0;
    std::uint64_t at = 0, end = 0;  // bytes of the ring
    bool acquired = false, consumed = false;
    Load load;
  };

  bool commit(std::uint32_t tensor, const Pinned& entry);
  Pinned* pinned(std::uint32_t tensor);
  void pin_from_ring(std::uint32_t tensor, const Entry& entry);
  Result<std::byte*> acquire_pinned(std::uint32_t tensor, Pinned& pinned);
  Entry* find(std::uint32_t tensor);
  Entry* push(std::uint32_t tensor, Loader::Urgency urgency);
  void make_room(std::uint32_t tensor);
  void read_ahead();
  void start(Load& load, std::uint32_t tensor, std::uint64_t base, Loader::Urgency urgency);
  std::byte* place(std::uint32_t tensor, std::uint64_t base) const;

  const GgufModel& model_;
  const WeightPlan& plan_;
  Arena& arena_;
  Loader& loader_;
  std::function<bool(std::uint64_t bytes)> may_commit_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Pinned>> pinned_;
  std::unordered_map<std::uint32_t, std::uint32_t> next_;  // streamed tensor -> the streamed one used after it
  std::deque<std::unique_ptr<Entry>> ring_;
  std::uint32_t last_used_ = ~0U;
  DenseCounters counters_;
};

}  // namespace artesian
