// Dense weights larger than memory: a pinned part stays, the rest streams through a ring in the order of use, always
// ahead of the compute. The order is learned from the first pass and guessed from the names before it.
//
// Threads: one caller at a time. Borrows model, plan, arena and loader.
#pragma once

#include <cstdint>
#include <deque>
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
  DenseStream(const GgufModel& model, const WeightPlan& plan, Arena& arena, Loader& loader);

  // The tensor's bytes, whole and in place until release(); waits for them.
  Result<std::byte*> acquire(std::uint32_t tensor);
  void release(std::uint32_t tensor);

  const DenseCounters& counters() const { return counters_; }
  std::uint64_t committed_bytes() const { return committed_; }

 private:
  struct Pinned {
    std::uint64_t base = 0;
    bool started = false;
    Load load;
  };
  struct Entry {
    std::uint32_t tensor = 0;
    std::uint64_t at = 0, end = 0;  // bytes of the ring
    bool consumed = false;
    Load load;
  };

  std::uint64_t padded(std::uint32_t tensor) const;
  Entry* find(std::uint32_t tensor);
  Entry* push(std::uint32_t tensor, IoClass io_class);
  void make_room(std::uint32_t tensor);
  void read_ahead();
  void start(Load& load, std::uint32_t tensor, std::uint64_t base, IoClass io_class);
  std::byte* place(std::uint32_t tensor, std::uint64_t base) const;

  const GgufModel& model_;
  const WeightPlan& plan_;
  Arena& arena_;
  Loader& loader_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Pinned>> pinned_;
  std::unordered_map<std::uint32_t, std::uint32_t> next_;  // streamed tensor -> the streamed one used after it
  std::deque<std::unique_ptr<Entry>> ring_;
  std::uint32_t last_used_ = ~0U;
  std::uint64_t committed_ = 0;
  std::uint64_t ring_high_ = 0;
  DenseCounters counters_;
};

}  // namespace artesian
