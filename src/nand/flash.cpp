#include "nand/flash.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace artesian::nand {

Flash::Flash(const Profile& profile, const Layout& layout, EventQueue& events, FlashClient& client)
    : layout_(layout),
      events_(events),
      client_(client),
      priorities_(profile.priorities),
      cache_read_(profile.cache_read),
      cache_program_(profile.cache_program),
      suspend_(profile.suspend),
      suspend_ns_(from_us(profile.suspend_us)),
      resume_ns_(from_us(profile.resume_us)),
      starvation_ns_(from_us(profile.starvation_us)),
      move_overhead_ns_(from_us(profile.channel_overhead_us)),
      move_ns_per_byte_(1e3 / profile.channel_mb),
      lanes_(std::size_t{layout.dies} * layout.lanes),
      dies_(layout.dies),
      channels_(layout.channels),
      die_busy_(layout.dies),
      channel_busy_(layout.channels) {}

Time Flash::move_time(std::uint64_t bytes) const {
  return move_overhead_ns_ + std::llround(static_cast<double>(bytes) * move_ns_per_byte_);
}

void Flash::push(Fifo& fifo, std::uint32_t id) {
  ops_[id].next = none;
  (fifo.head == none ? fifo.head : ops_[fifo.tail].next) = id;
  fifo.tail = id;
}

std::uint32_t Flash::pop(Fifo& fifo) {
  const std::uint32_t id = fifo.head;
  fifo.head = ops_[id].next;
  return id;
}

std::uint32_t Flash::first_of(const Fifo (&fifos)[level_count]) const {
  for (const Fifo& fifo : fifos) {
    if (fifo.head != none) return fifo.head;
  }
  return none;
}

void Flash::add(const FlashOp& op, Time now) {
  std::uint32_t id = static_cast<std::uint32_t>(ops_.size());
  if (free_ops_.empty()) {
    ops_.push_back(op);
  } else {
    id = free_ops_.back();
    free_ops_.pop_back();
    ops_[id] = op;
  }
  ++outstanding_;
  FlashOp& mine = ops_[id];
  if (!priorities_) mine.level = 0;
  mine.order = ++order_;
  mine.channel = static_cast<std::uint8_t>(layout_.channel_of(mine.die));
  Die& die = dies_[mine.die];
  switch (mine.kind) {
    case OpKind::read: {
      const std::uint32_t lane = mine.die * layout_.lanes + mine.lane;
      push(lanes_[lane].queue[mine.level], id);
      ++die.waiting[mine.level];
      if (die.state == State::idle && die.ready_count == 0) {
        start_read(mine.die, lane, none, now);
      } else {
        schedule(mine.die, now);
      }
      break;
    }
    case OpKind::program:
      push(die.programs[mine.level], id);
      load_next(mine.die, now);
      break;
    case OpKind::erase:
      make_ready(id, now);
      break;
  }
}

void Flash::release(std::uint32_t id) {
  free_ops_.push_back(id);
  --outstanding_;
}

void Flash::clear() {
  ops_.clear();
  free_ops_.clear();
  std::ranges::fill(lanes_, Lane{});
  std::ranges::fill(dies_, Die{});
  std::ranges::fill(channels_, Channel{});
  outstanding_ = 0;
}

// Whether the exclusive operation goes before the read.
bool Flash::precedes(const FlashOp& exclusive, const FlashOp& read, Time now) const {
  if (now - exclusive.ready > starvation_ns_) return true;
  if (exclusive.level != read.level) return exclusive.level < read.level;
  return static_cast<std::int32_t>(exclusive.order - read.order) < 0;
}

// Starts all that may start on a die.
void Flash::schedule(std::uint32_t index, Time now) {
  Die& die = dies_[index];
  if (die.state == State::suspending) return;
  if (die.state == State::executing) return consider_suspend(index, now);
  const std::uint32_t exclusive = die.state == State::suspended ? die.active : first_of(die.ready);
  const std::uint32_t first = index * layout_.lanes;
  for (std::uint32_t lane = first; lane < first + layout_.lanes; ++lane) start_read(index, lane, exclusive, now);
  if (exclusive != none && die.sensing == 0) start_exclusive(index, now);
}

void Flash::start_read(std::uint32_t index, std::uint32_t lane_index, std::uint32_t exclusive, Time now) {
  Lane& lane = lanes_[lane_index];
  if (lane.sensing != none) return;
  for (std::size_t level = 0; level < level_count; ++level) {
    if (lane.queue[level].head == none) continue;
    const std::uint32_t id = lane.queue[level].head;
    if (exclusive != none && precedes(ops_[exclusive], ops_[id], now)) return;
    pop(lane.queue[level]);
    Die& die = dies_[index];
    --die.waiting[level];
    ++die.sensing;
    lane.sensing = id;
    lane.sensed = false;
    die_busy_[index] += ops_[id].duration;
    events_.push(now + ops_[id].duration, EventKind::sensed, lane_index);
    return;
  }
}

void Flash::start_exclusive(std::uint32_t index, Time now) {
  Die& die = dies_[index];
  if (die.state == State::suspended) {
    ops_[die.active].duration += resume_ns_;
  } else {
    const std::uint32_t id = first_of(die.ready);
    pop(die.ready[ops_[id].level]);
    --die.ready_count;
    ops_[id].ready = now;
    die.active = id;
    die_busy_[index] += ops_[id].duration;
  }
  die.state = State::executing;
  die.end = now + ops_[die.active].duration;
  events_.push(die.end, EventKind::die_done, index);
  if (ops_[die.active].kind == OpKind::program && cache_program_ && die.loading == die.active) {
    die.loading = none;  // from the register into the array: the register is free
    load_next(index, now);
  }
  consider_suspend(index, now);
}

void Flash::consider_suspend(std::uint32_t index, Time now) {
  Die& die = dies_[index];
  FlashOp& op = ops_[die.active];
  const bool able = suspend_ == Suspend::program_erase || (suspend_ == Suspend::erase && op.kind == OpKind::erase);
  if (!able || !priorities_ || die.end - now <= suspend_ns_ || now - op.ready > starvation_ns_) return;
  bool wanted = false;
  for (std::size_t level = 0; level < op.level; ++level) wanted = wanted || die.waiting[level] > 0;
  if (!wanted) return;
  op.duration = die.end - now;
  die.state = State::suspending;
  ++suspends_;
  events_.push(now + suspend_ns_, EventKind::suspended, index);
}

void Flash::on_suspended(std::uint32_t index, Time now) {
  dies_[index].state = State::suspended;
  schedule(index, now);
}

void Flash::on_die_done(std::uint32_t index, Time now) {
  Die& die = dies_[index];
  if (die.state != State::executing || die.end != now) return;  // it was suspended in between
  const std::uint32_t id = die.active;
  die.active = none;
  die.state = State::idle;
  if (die.loading == id) die.loading = none;
  const FlashOp done = ops_[id];
  release(id);
  if (done.kind == OpKind::program) load_next(index, now);
  schedule(index, now);
  client_.finished(done, now);
}

void Flash::make_ready(std::uint32_t id, Time now) {
  FlashOp& op = ops_[id];
  op.ready = now;
  op.order = ++order_;
  Die& die = dies_[op.die];
  push(die.ready[op.level], id);
  ++die.ready_count;
  schedule(op.die, now);
}

void Flash::load_next(std::uint32_t index, Time now) {
  Die& die = dies_[index];
  if (die.loading != none) return;
  const std::uint32_t id = first_of(die.programs);
  if (id == none) return;
  pop(die.programs[ops_[id].level]);
  die.loading = id;
  request_move(id, now);
}

void Flash::request_move(std::uint32_t id, Time now) {
  Channel& channel = channels_[ops_[id].channel];
  if (channel.moving == none) {
    start_move(ops_[id].channel, id, now);
  } else {
    push(channel.queue[ops_[id].level], id);
  }
}

void Flash::start_move(std::uint32_t index, std::uint32_t id, Time now) {
  const Time time = move_time(ops_[id].bytes);
  channels_[index].moving = id;
  channel_busy_[index] += time;
  events_.push(now + time, EventKind::moved, index);
}

void Flash::on_sensed(std::uint32_t index, Time now) {
  Lane& lane = lanes_[index];
  const std::uint32_t id = lane.sensing;
  if (cache_read_ && lane.leaving != none) {
    lane.sensed = true;  // the register is still full
    return;
  }
  lane.leaving = id;
  request_move(id, now);
  if (cache_read_) let_go(index, now);
}

// The lane's array is free for the next read.
void Flash::let_go(std::uint32_t index, Time now) {
  Lane& lane = lanes_[index];
  lane.sensing = none;
  lane.sensed = false;
  const std::uint32_t die_index = index / layout_.lanes;
  Die& die = dies_[die_index];
  --die.sensing;
  if (die.state == State::idle && die.ready_count == 0) {
    start_read(die_index, index, none, now);
  } else {
    schedule(die_index, now);
  }
}

void Flash::on_moved(std::uint32_t index, Time now) {
  Channel& channel = channels_[index];
  const std::uint32_t id = channel.moving;
  bool loaded = false;
  if (ops_[id].kind == OpKind::read) {
    const std::uint32_t lane_index = ops_[id].die * layout_.lanes + ops_[id].lane;
    Lane& lane = lanes_[lane_index];
    lane.leaving = none;
    if (!cache_read_) {
      let_go(lane_index, now);
    } else if (lane.sensed) {
      lane.leaving = lane.sensing;
      push(channel.queue[ops_[lane.leaving].level], lane.leaving);
      let_go(lane_index, now);
    }
  } else if (--ops_[id].pages > 0) {
    push(channel.queue[ops_[id].level], id);  // others may go between two pages
  } else {
    loaded = true;
  }
  channel.moving = none;
  const std::uint32_t next = first_of(channel.queue);
  if (next != none) {
    pop(channel.queue[ops_[next].level]);
    start_move(index, next, now);
  }
  if (loaded) return make_ready(id, now);
  if (ops_[id].kind != OpKind::read) return;
  const FlashOp done = ops_[id];
  release(id);
  client_.moved(done, now);
}

void Flash::reset_counters() {
  std::ranges::fill(die_busy_, 0);
  std::ranges::fill(channel_busy_, 0);
  suspends_ = 0;
}

}  // namespace artesian::nand
