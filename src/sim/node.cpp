#include "sim/node.h"

#include <algorithm>
#include <array>
#include <utility>

namespace artesian::sim {

class Node::Port final : public Device {
 public:
  Port(Node& node, std::string name, FileIndex first, std::size_t files) : node_(node), first_(first) {
    facts_ = node.drive_.facts();
    const auto begin = facts_.file_bytes.begin() + static_cast<std::ptrdiff_t>(first);
    facts_.file_bytes = std::vector(begin, begin + static_cast<std::ptrdiff_t>(files));
    results.name = std::move(name);
  }

  const DeviceFacts& facts() const override { return facts_; }
  DeviceCounters counters() const override { return counters_; }
  Status submit(std::span<const IoRequest> requests) override { return node_.submit(*this, requests); }
  std::size_t poll(std::span<IoCompletion> out) override {
    node_.collect();
    return take(out);
  }
  std::size_t wait(std::span<IoCompletion> out, Nanos deadline) override {
    node_.collect();
    while (arrived.empty() && counters_.in_flight > 0 && node_.advance(deadline)) {
    }
    return take(out);
  }
  bool register_memory(std::span<std::byte> /*memory*/) override { return false; }
  Status discard(FileIndex file, std::uint64_t offset, std::uint64_t bytes) override {
    return node_.drive_.discard(file + first_, offset, bytes);
  }
  Status flush() override { return node_.drive_.flush(); }

  FileIndex first() const { return first_; }
  void sent(const IoRequest& request) {
    ++counters_.in_flight;
    if (request.op == IoOp::flush) return;
    ++(request.op == IoOp::read ? counters_.reads : counters_.writes);
  }
  void came(const Pending& pending, IoCompletion done, Nanos now) {
    --counters_.in_flight;
    if (pending.op != IoOp::flush) {
      const bool read = pending.op == IoOp::read;
      (read ? results.reads : results.writes).add((now - pending.submitted).count());
      (read ? results.read_bytes : results.written_bytes) += done.bytes;
      (read ? counters_.bytes_read : counters_.bytes_written) += done.bytes;
      results.failed += done.status ? 0 : 1;
    }
    done.tag = pending.tag;
    arrived.push_back(std::move(done));
  }

  nand::FlowResult results;
  std::deque<IoCompletion> arrived;

 private:
  std::size_t take(std::span<IoCompletion> out) {
    const std::size_t count = std::min(out.size(), arrived.size());
    for (std::size_t i = 0; i < count; ++i) {
      out[i] = std::move(arrived.front());
      arrived.pop_front();
    }
    return count;
  }

  Node& node_;
  FileIndex first_;
  DeviceFacts facts_;
  DeviceCounters counters_;
};

Node::Node(nand::NandDevice& drive, ManualClock& clock) : drive_(drive), clock_(clock) {}

Node::~Node() = default;

Device& Node::add_device(std::string name, FileIndex first, std::size_t files) {
  ports_.push_back(std::make_unique<Port>(*this, std::move(name), first, files));
  return *ports_.back();
}

void Node::add_actor(Actor& actor, const Device& device) {
  const auto port = std::ranges::find_if(ports_, [&](const auto& one) { return one.get() == &device; });
  actors_.push_back({&actor, port->get()});
}

void Node::remove_actors() {
  actors_.clear();
}

Status Node::submit(Port& port, std::span<const IoRequest> requests) {
  std::vector<IoRequest> renamed(requests.begin(), requests.end());
  std::vector<std::uint32_t> slots;
  for (IoRequest& request : renamed) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(pending_.size()));
      pending_.emplace_back();
    }
    slots.push_back(free_.back());
    free_.pop_back();
    pending_[slots.back()] = {&port, request.tag, clock_.now(), request.op};
    request.tag = slots.back();
    request.file += port.first();
  }
  auto submitted = drive_.submit(renamed);
  if (!submitted) {
    free_.insert(free_.end(), slots.begin(), slots.end());
    return submitted;
  }
  for (const IoRequest& request : renamed) port.sent(request);
  return {};
}

void Node::hand_out(std::span<IoCompletion> done) {
  for (IoCompletion& one : done) {
    const auto slot = static_cast<std::uint32_t>(one.tag);
    const Pending pending = pending_[slot];
    free_.push_back(slot);
    pending.port->came(pending, std::move(one), clock_.now());
  }
}

void Node::collect() {
  std::array<IoCompletion, 64> done;
  while (const std::size_t count = drive_.poll(done)) hand_out(std::span(done).first(count));
}

bool Node::advance(Nanos until) {
  const Nanos start = clock_.now();
  Nanos stop = until;
  for (const Acting& one : actors_) stop = std::min(stop, std::max(one.actor->next(), start));
  std::array<IoCompletion, 64> done;
  const std::size_t count = drive_.wait(done, stop);
  hand_out(std::span(done).first(count));
  if (count == 0 && stop != Nanos::max()) clock_.advance_to(stop);
  bool acted = false;
  for (const Acting& one : actors_) {
    if (one.actor->next() > clock_.now() && one.port->arrived.empty()) continue;
    one.actor->act();
    acted = true;
  }
  return count > 0 || acted;
}

std::vector<nand::FlowResult> Node::take_results() {
  std::vector<nand::FlowResult> taken;
  for (const auto& port : ports_) {
    nand::FlowResult next{.name = port->results.name};
    taken.push_back(std::exchange(port->results, std::move(next)));
  }
  return taken;
}

}  // namespace artesian::sim
