// Dies and channels at work: what waits where, who goes first, when it is done. It knows operations, not what they are
// for.
//
// A die senses one page at a time in each of its read lanes, or programs a wordline or erases a block in all of its
// planes; the latter two can be suspended for reads of an earlier level where the profile says so. Data leave a die, or
// enter it page by page, over the channel it shares. With cached registers a lane senses the next page while the last
// one leaves, and the data of the next program enter while this one is programmed. Order: by level, then by arrival;
// what has waited for the profile's starvation time goes first. A channel's transfer is never interrupted.
//
// Not thread safe. Operations are owned by the pool; an id is free again once its client was told that it is done.
#pragma once

#include <cstdint>
#include <vector>

#include "nand/event_queue.h"
#include "nand/layout.h"

namespace artesian::nand {

enum class OpKind : std::uint8_t { read, program, erase };
enum class Purpose : std::uint8_t { host, map, merge, copy, prefetch, program, erase };
constexpr std::size_t purpose_count = 7;
constexpr std::size_t level_count = 4;  // as IoClass: demand, staged, write, reclaim

struct FlashOp {
  Time duration = 0;  // to sense, program or erase; what is left of it while suspended
  Time ready = 0;     // since when it could have been started, and then since when it is at work
  std::uint32_t next = none;
  std::uint32_t order = 0;
  std::uint32_t die = 0;
  std::uint32_t bytes = 0;                        // that a read moves out, or each page of a program in
  std::uint32_t pages = 0;                        // of a program: still to be moved in
  std::uint32_t owner = 0, place = 0, count = 0;  // the client's
  std::uint8_t lane = 0, level = 0, channel = 0;
  OpKind kind = OpKind::read;
  Purpose purpose = Purpose::host;
};

class FlashClient {
 public:
  virtual ~FlashClient() = default;
  virtual void moved(const FlashOp& op, Time now) = 0;     // a read's data have left the die
  virtual void finished(const FlashOp& op, Time now) = 0;  // a program or an erase is done
};

class Flash {
 public:
  Flash(const Profile& profile, const Layout& layout, EventQueue& events, FlashClient& client);

  void add(const FlashOp& op, Time now);
  // Nothing is queued or at work any more, nobody is told: power is gone.
  void clear();

  void on_sensed(std::uint32_t lane, Time now);
  void on_moved(std::uint32_t channel, Time now);
  void on_die_done(std::uint32_t die, Time now);
  void on_suspended(std::uint32_t die, Time now);

  std::uint64_t outstanding() const { return outstanding_; }
  std::uint64_t suspends() const { return suspends_; }
  // Virtual time at work so far, what is under way included in full.
  const std::vector<Time>& die_busy() const { return die_busy_; }
  const std::vector<Time>& channel_busy() const { return channel_busy_; }
  Time move_time(std::uint64_t bytes) const;  // of one transfer over a channel
  void reset_counters();

 private:
  struct Fifo {
    std::uint32_t head = none, tail = none;
  };
  struct Lane {
    std::uint32_t sensing = none;  // or sensed and waiting for the register
    std::uint32_t leaving = none;
    bool sensed = false;
    Fifo queue[level_count];
  };
  enum class State : std::uint8_t { idle, executing, suspending, suspended };
  struct Die {
    std::uint32_t active = none;   // program or erase: at work, or suspended
    std::uint32_t loading = none;  // program whose data enter, or are in the register
    Time end = 0;
    State state = State::idle;
    std::uint32_t sensing = 0;  // lanes at work
    std::uint32_t ready_count = 0;
    std::uint32_t waiting[level_count] = {};  // reads
    Fifo programs[level_count];               // whose data are still outside
    Fifo ready[level_count];                  // erases, and programs whose data are in
  };
  struct Channel {
    std::uint32_t moving = none;
    Fifo queue[level_count];
  };

  void push(Fifo& fifo, std::uint32_t id);
  std::uint32_t pop(Fifo& fifo);
  std::uint32_t first_of(const Fifo (&fifos)[level_count]) const;
  bool precedes(const FlashOp& exclusive, const FlashOp& read, Time now) const;
  void schedule(std::uint32_t die, Time now);
  void start_read(std::uint32_t die, std::uint32_t lane, std::uint32_t exclusive, Time now);
  void start_exclusive(std::uint32_t die, Time now);
  void consider_suspend(std::uint32_t die, Time now);
  void make_ready(std::uint32_t id, Time now);
  void load_next(std::uint32_t die, Time now);
  void request_move(std::uint32_t id, Time now);
  void start_move(std::uint32_t channel, std::uint32_t id, Time now);
  void let_go(std::uint32_t lane, Time now);
  void release(std::uint32_t id);

  Layout layout_;
  EventQueue& events_;
  FlashClient& client_;
  bool priorities_, cache_read_, cache_program_;
  Suspend suspend_;
  Time suspend_ns_, resume_ns_, starvation_ns_, move_overhead_ns_;
  double move_ns_per_byte_;
  std::vector<FlashOp> ops_;
  std::vector<std::uint32_t> free_ops_;
  std::vector<Lane> lanes_;
  std::vector<Die> dies_;
  std::vector<Channel> channels_;
  std::vector<Time> die_busy_, channel_busy_;
  std::uint32_t order_ = 0;
  std::uint64_t outstanding_ = 0, suspends_ = 0;
};

}  // namespace artesian::nand
