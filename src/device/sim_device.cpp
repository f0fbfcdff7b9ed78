#include "device/sim_device.h"

#include <algorithm>
#include <utility>

namespace artesian {

SimDevice::SimDevice(std::unique_ptr<Device> content, ManualClock& clock, SimDrive drive)
    : content_(std::move(content)), clock_(clock), drive_(drive), facts_(content_->facts()) {
  facts_.name = "simulated drive, " + facts_.name;
  facts_.queue_depth_max = drive.queue_depth_max;
  facts_.queue_max = drive.queue_max;
  for (std::size_t i = 0; i < facts_.file_bytes.size(); ++i) names_.push_back(fmt::format("simulated file {}", i));
}

DeviceCounters SimDevice::counters() const {
  DeviceCounters counters = content_->counters();
  counters.in_flight = static_cast<std::uint32_t>(active_.size());
  counters.queued = queue_.size();
  counters.busy = active_.empty() ? busy_ : busy_ + (clock_.now() - busy_since_);
  return counters;
}

Status SimDevice::submit(std::span<const IoRequest> requests) {
  settle(clock_.now());
  const std::size_t outstanding = queue_.size() + active_.size() + finished_.size();
  if (auto checked = check_batch(facts_, names_, drive_.writable, outstanding, requests); !checked) return checked;
  for (const IoRequest& request : requests) queue_.push(request);
  start(clock_.now());
  return {};
}

void SimDevice::start(Nanos at) {
  while (active_.size() < drive_.queue_depth_max && !queue_.empty()) {
    if (active_.empty()) busy_since_ = at;
    const IoRequest request = queue_.pop();
    const double seconds = static_cast<double>(request.bytes()) / drive_.bytes_per_second;
    bus_free_ = std::max(at + drive_.latency, bus_free_) + Nanos(static_cast<std::int64_t>(seconds * 1e9));
    active_.push_back({bus_free_, request});
  }
}

void SimDevice::settle(Nanos now) {
  while (!active_.empty() && active_.front().finish <= now) {
    const Active done = active_.front();
    active_.pop_front();
    IoCompletion completion{.tag = done.request.tag, .bytes = 0, .status = {}};
    if (auto taken = content_->submit(std::span(&done.request, 1)); !taken) {
      completion.status = std::move(taken);
    } else {
      content_->poll(std::span(&completion, 1));
    }
    finished_.push_back(std::move(completion));
    if (active_.empty()) busy_ += done.finish - busy_since_;
    start(done.finish);
  }
}

std::size_t SimDevice::deliver(std::span<IoCompletion> out) {
  std::size_t count = 0;
  while (count < out.size() && !finished_.empty()) {
    out[count++] = std::move(finished_.front());
    finished_.pop_front();
  }
  return count;
}

std::size_t SimDevice::poll(std::span<IoCompletion> out) {
  settle(clock_.now());
  return deliver(out);
}

std::size_t SimDevice::wait(std::span<IoCompletion> out, Nanos deadline) {
  settle(clock_.now());
  if (finished_.empty() && !active_.empty()) {
    clock_.advance_to(std::min(active_.front().finish, deadline));
    settle(clock_.now());
  }
  return deliver(out);
}

Status SimDevice::discard(FileIndex file, std::uint64_t offset, std::uint64_t bytes) {
  if (file < names_.size() && !drive_.writable) {
    return fail(Code::invalid, "{}: is open for reading only", names_[file]);
  }
  return content_->discard(file, offset, bytes);
}

}  // namespace artesian
