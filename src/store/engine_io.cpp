// How operations move: from their queue to the device, back, and to their answer.
#include <algorithm>
#include <cassert>

#include "store/engine.h"

namespace artesian {
namespace {
// Behind a demand read others are expected for so long.
constexpr Nanos reads_go_on = std::chrono::milliseconds(2);
}  // namespace

void Engine::Op::aim(Engine& engine, std::uint32_t segment, std::uint32_t page) {
  request.file = engine.segments_.path_of(segment).file;
  request.offset = engine.segments_.offset(segment, page);
}

void Engine::queue(IoClass io_class, std::unique_ptr<Op> op, bool front) {
  op->request.io_class = io_class;
  earliest_deadline_ = std::min(earliest_deadline_, op->deadline);
  if (op->request.op != IoOp::read && op->ticket == 0) tickets_.insert(op->ticket = ++last_ticket_);
  Queue& queue = queues_[static_cast<std::size_t>(io_class)];
  if (front) {
    queue.push_front(std::move(op));
  } else {
    queue.push_back(std::move(op));
  }
}

// Those that wait and whose time has passed are answered; what is at the device is waited for, since it is being
// written into the caller's memory.
void Engine::expire(Nanos now) {
  if (now < earliest_deadline_) return;
  earliest_deadline_ = Nanos::max();
  for (Queue& queue : queues_) {
    for (auto place = queue.begin(); place != queue.end();) {
      if ((*place)->deadline > now) {
        earliest_deadline_ = std::min(earliest_deadline_, (*place)->deadline);
        ++place;
        continue;
      }
      const auto op = std::move(*place);
      place = queue.erase(place);
      op->give_up(*this, Outcome::late);
      tickets_.erase(op->ticket);
    }
  }
}

bool Engine::room_for(IoClass io_class) const {
  if (free_tags_.empty()) return false;
  const auto at = [&](IoClass other) { return at_device_[static_cast<std::size_t>(other)]; };
  if (io_class == IoClass::write) {
    const bool reading = at(IoClass::demand) > 0 || clock_.now() - last_read_ < reads_go_on;
    return at(IoClass::write) < (reading ? settings_.write_depth_beside_reads : settings_.write_depth_max);
  }
  if (io_class == IoClass::reclaim) return at(IoClass::reclaim) < settings_.reclaim_depth_max;
  return true;
}

// The first of a queue goes to the device; false if it cannot.
bool Engine::start_one(IoClass io_class) {
  Queue& queue = queues_[static_cast<std::size_t>(io_class)];
  if (queue.empty() || !room_for(io_class)) return false;
  auto op = std::move(queue.front());
  queue.pop_front();
  const std::size_t behind = queue.size();
  if (!op->prepare(*this)) {
    // What it has brought with it, the frame of a segment, goes before it.
    const auto brought = static_cast<std::ptrdiff_t>(queue.size() - behind);
    queue.insert(queue.begin() + brought, std::move(op));
    return brought > 0;
  }
  op->begun = clock_.now();
  if (io_class == IoClass::demand) last_read_ = op->begun;
  const std::uint32_t tag = free_tags_.back();
  op->request.pieces = op->pieces;
  op->request.tag = tag;
  if (auto taken = device_.submit(std::span(&op->request, 1)); !taken) {
    op->status = std::move(taken);
    op->check(*this);
    complete(std::move(op));
    return true;
  }
  free_tags_.pop_back();
  ++at_device_[static_cast<std::size_t>(io_class)];
  in_flight_[tag] = std::move(op);
  return true;
}

void Engine::start_queued() {
  expire(clock_.now());
  if (device_busy_) {
    device_.wake();
    return;
  }
  discard_freed();
  step_reclaim();
  for (const IoClass io_class : {IoClass::demand, IoClass::staged, IoClass::write, IoClass::reclaim}) {
    while (start_one(io_class)) {
    }
  }
  step_reclaim();
  while (start_one(IoClass::reclaim)) {
  }
}

// The end of an operation, or its next attempt.
void Engine::complete(std::unique_ptr<Op> op) {
  const IoClass io_class = op->request.io_class;
  if (op->finish(*this)) {
    tickets_.erase(op->ticket);
    return;
  }
  op->status = {};
  op->pieces.clear();
  op->request.buffer = {};
  queue(io_class, std::move(op), true);
}

void Engine::answer(const std::shared_ptr<Pending>& batch) {
  if (--batch->left == 0 && batch->done) callbacks_.push_back(std::move(batch->done));
}

std::vector<std::unique_ptr<Engine::Op>> Engine::take_ended(std::span<IoCompletion> completions) {
  std::vector<std::unique_ptr<Op>> ended;
  for (IoCompletion& completion : completions) {
    if (completion.tag >= in_flight_.size() || in_flight_[completion.tag] == nullptr) continue;  // nobody's
    auto op = std::move(in_flight_[completion.tag]);
    free_tags_.push_back(static_cast<std::uint32_t>(completion.tag));
    --at_device_[static_cast<std::size_t>(op->request.io_class)];
    op->status = std::move(completion.status);
    if (op->request.op != IoOp::flush) (op->request.op == IoOp::read ? reads_ : writes_).add(clock_.now() - op->begun);
    if (op->status && completion.bytes < op->request.bytes()) {
      op->status = fail(Code::corrupt, "offset {}: {} of {} bytes are there", op->request.offset, completion.bytes,
                        op->request.bytes());
    }
    ended.push_back(std::move(op));
  }
  return ended;
}

void Engine::finish_round(Lock& lock, std::vector<std::unique_ptr<Op>>& ended) {
  start_queued();  // before anything else: the device must not stand still while bytes are summed up
  if (!ended.empty()) {
    ++checking_;
    lock.unlock();
    for (const auto& op : ended) op->check(*this);
    lock.lock();
    --checking_;
    for (auto& op : ended) complete(std::move(op));
    ended.clear();
    start_queued();
  }
  if (!callbacks_.empty()) {
    const auto callbacks = std::exchange(callbacks_, {});
    ++checking_;
    lock.unlock();
    for (const auto& callback : callbacks) callback();
    lock.lock();
    --checking_;
  }
  changed_.notify_all();
}

// One round. Returns after something has moved, or `until` (or a slice of time, so that others' times are kept).
void Engine::drive(Lock& lock, Nanos until) {
  constexpr Nanos slice = std::chrono::milliseconds(10);
  constexpr std::size_t batch = 64;
  std::array<IoCompletion, batch> completions;
  std::vector<std::unique_ptr<Op>> ended;
  if (!callbacks_.empty()) return finish_round(lock, ended);
  if (device_busy_) {
    if (until > clock_.now()) changed_.wait(lock);
    return;
  }
  start_queued();
  std::size_t count = device_.poll(completions);
  const bool nothing_there = free_tags_.size() == in_flight_.size();
  if (count == 0) {
    const Nanos now = clock_.now();
    if (nothing_there && checking_ > 0 && until > now) {
      changed_.wait(lock);
      return;
    }
    if (nothing_there) {
      give_up_stuck();
    } else if (until > now) {
      device_busy_ = true;
      lock.unlock();
      count = device_.wait(completions, until - now > slice ? now + slice : until);
      lock.lock();
      device_busy_ = false;
    }
  }
  ended = take_ended(std::span(completions).first(count));
  finish_round(lock, ended);
}

// Nothing is under way and nothing could be started: what waits for room will wait for ever.
void Engine::give_up_stuck() {
  for (const IoClass io_class : {IoClass::write, IoClass::reclaim, IoClass::staged, IoClass::demand}) {
    Queue& queue = queues_[static_cast<std::size_t>(io_class)];
    if (queue.empty()) continue;
    const auto op = std::move(queue.front());
    queue.pop_front();
    op->give_up(*this, Outcome::rejected);
    tickets_.erase(op->ticket);
    return;
  }
}

bool Engine::idle() const {
  return free_tags_.size() == in_flight_.size() && checking_ == 0 && callbacks_.empty() &&
         std::ranges::all_of(queues_, [](const Queue& queue) { return queue.empty(); });
}

void Engine::poll() {
  Lock lock(mutex_);
  drive(lock, Nanos::min());
}

void Engine::wait(Nanos until) {
  Lock lock(mutex_);
  drive(lock, until);
}

}  // namespace artesian
