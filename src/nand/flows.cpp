#include "nand/flows.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace artesian::nand {

double FlowResult::iops() const {
  const double count = static_cast<double>(reads.count() + writes.count());
  return seconds() <= 0 ? 0 : count / seconds();
}

double FlowResult::bytes_per_second() const {
  return seconds() <= 0 ? 0 : static_cast<double>(read_bytes + written_bytes) / seconds();
}

void FlowResult::add(const FlowResult& later) {
  name = later.name;
  reads.add(later.reads);
  writes.add(later.writes);
  groups.add(later.groups);
  read_bytes += later.read_bytes;
  written_bytes += later.written_bytes;
  failed += later.failed;
  last = std::max(last, later.last);
}

FlowRunner::FlowRunner(Drive& drive, const std::vector<Flow>& flows, std::uint64_t warm_up, std::uint64_t seed)
    : drive_(drive), warm_up_(warm_up) {
  for (const Flow& flow : flows) {
    const std::uint64_t length = flow.length != 0 ? flow.length : drive.profile().capacity_bytes - flow.first;
    running_.push_back({.flow = flow,
                        .random = Random(seed * 7919 + running_.size()),
                        .slots = std::max<std::uint64_t>(length / flow.bytes, 1)});
    results_.push_back({.name = flow.name, .first = drive.now()});
  }
}

void FlowRunner::start() {
  started_ = true;
  for (std::uint32_t i = 0; i < running_.size(); ++i) {
    results_[i].first = drive_.now();
    if (timed(running_[i].flow)) {
      arrivals_.push({drive_.now() + (running_[i].flow.every_seconds > 0 ? 0 : gap(running_[i])), i});
    } else {
      for (std::uint32_t d = 0; d < running_[i].flow.depth; ++d) submit(i);
    }
  }
}

bool FlowRunner::run_until(Time end) {
  if (!started_) start();
  while (!finished()) {
    if (!advance(end)) return true;
    std::swap(completed_, drive_.completions());
    for (const HostCompletion& completion : completed_) take(completion);
    completed_.clear();
  }
  return false;
}

bool FlowRunner::finished() const {
  bool any = false;
  for (const Running& one : running_) {
    if (one.flow.requests == 0) continue;
    if (one.done < one.flow.requests) return false;
    any = true;
  }
  return any;
}

// To the next completion, arrival, or the end; false at the end.
bool FlowRunner::advance(Time end) {
  while (drive_.completions().empty()) {
    const Time arrival = arrivals_.empty() ? INT64_MAX : arrivals_.top().at;
    const Time event = drive_.idle() ? INT64_MAX : drive_.next_event();
    if (std::min(arrival, event) > end || std::min(arrival, event) == INT64_MAX) {
      if (end != INT64_MAX) drive_.run_until(end);
      return false;
    }
    if (event <= arrival) {
      drive_.step();
      continue;
    }
    drive_.run_until(arrival);
    const std::uint32_t flow = arrivals_.top().flow;
    arrivals_.pop();
    submit(flow);
    if (more(running_[flow])) arrivals_.push({arrival + gap(running_[flow]), flow});
  }
  return true;
}

bool FlowRunner::more(const Running& running) {
  return running.flow.requests == 0 || running.submitted < running.flow.requests;
}

Time FlowRunner::gap(Running& running) {
  if (running.flow.every_seconds > 0) return std::llround(running.flow.every_seconds * 1e9);
  return std::llround(-std::log(1 - running.random.unit()) / running.flow.per_second * 1e9);
}

void FlowRunner::submit(std::uint32_t index) {
  Running& running = running_[index];
  if (!more(running)) return;
  ++running.submitted;
  if (running.flow.group == 0) return submit_one(index, none);
  if (running.free_groups.empty()) {
    running.free_groups.push_back(static_cast<std::uint32_t>(running.groups.size()));
    running.groups.emplace_back();
  }
  const std::uint32_t group = running.free_groups.back();
  running.free_groups.pop_back();
  running.groups[group] = {.left = running.flow.group, .started = drive_.now()};
  go_on(index, group);
}

// As many of a group's requests as may be under way.
void FlowRunner::go_on(std::uint32_t index, std::uint32_t number) {
  const std::uint32_t width = running_[index].flow.width;
  while (running_[index].groups[number].left > 0 && running_[index].groups[number].in_flight < width) {
    --running_[index].groups[number].left;
    ++running_[index].groups[number].in_flight;
    submit_one(index, number);
  }
}

std::uint64_t FlowRunner::next_slot(Running& running) {
  return running.flow.access == Access::random ? running.random.below(running.slots) : running.next++ % running.slots;
}

// The drive hears of a request so many others before it.
std::uint64_t FlowRunner::announced_slot(std::uint32_t index) {
  Running& running = running_[index];
  while (running.announced.size() <= running.flow.hints) {
    running.announced.push_back(next_slot(running));
    if (running.announced.size() == 1) continue;  // that one is to be read now
    drive_.submit({.op = HostOp::prefetch,
                   .io_class = running.flow.io_class,
                   .queue = running.flow.queue,
                   .partition = running.flow.partition,
                   .offset = running.flow.first + running.announced.back() * running.flow.bytes,
                   .bytes = running.flow.bytes,
                   .tag = index});
  }
  const std::uint64_t slot = running.announced.front();
  running.announced.pop_front();
  return slot;
}

void FlowRunner::submit_one(std::uint32_t index, std::uint32_t group) {
  Running& running = running_[index];
  const Flow& flow = running.flow;
  const bool read = flow.reads >= 1 || (flow.reads > 0 && running.random.unit() < flow.reads);
  const std::uint64_t slot = flow.hints > 0 ? announced_slot(index) : next_slot(running);
  drive_.submit({.op = read ? HostOp::read : HostOp::write,
                 .io_class = flow.io_class,
                 .handle = flow.handle,
                 .queue = flow.queue,
                 .partition = flow.partition,
                 .compress = static_cast<float>(flow.compress),
                 .offset = flow.first + slot * flow.bytes,
                 .bytes = flow.bytes,
                 .tag = std::uint64_t{group} << 32 | index});
}

void FlowRunner::take(const HostCompletion& completion) {
  if (completion.op == HostOp::prefetch) return;
  const auto index = static_cast<std::uint32_t>(completion.tag);
  const auto group = static_cast<std::uint32_t>(completion.tag >> 32);
  Running& running = running_[index];
  FlowResult& result = results_[index];
  const bool counted = running.done >= warm_up_;
  if (counted) {
    const bool read = completion.op == HostOp::read;
    (read ? result.reads : result.writes).add(completion.at - completion.submitted);
    (read ? result.read_bytes : result.written_bytes) += completion.bytes;
    result.failed += completion.failed ? 1 : 0;
    result.last = completion.at;
  }
  if (group != none) {
    Group& whole = running.groups[group];
    --whole.in_flight;
    if (!running.flow.steps || whole.in_flight == 0) go_on(index, group);
    if (running.groups[group].in_flight > 0 || running.groups[group].left > 0) return;
    if (counted) result.groups.add(completion.at - running.groups[group].started);
    running.free_groups.push_back(group);
  }
  if (++running.done <= warm_up_) result.first = completion.at;
  if (!timed(running.flow)) submit(index);
}

std::vector<FlowResult> FlowRunner::take_results() {
  std::vector<FlowResult> taken;
  for (FlowResult& result : results_) {
    FlowResult next{.name = result.name, .first = drive_.now()};
    taken.push_back(std::exchange(result, std::move(next)));
  }
  return taken;
}

std::vector<FlowResult> run_flows(Drive& drive, const std::vector<Flow>& flows, Time limit, std::uint64_t warm_up,
                                  std::uint64_t seed) {
  FlowRunner runner(drive, flows, warm_up, seed);
  runner.run_until(limit == INT64_MAX ? limit : drive.now() + limit);
  return runner.take_results();
}

}  // namespace artesian::nand
