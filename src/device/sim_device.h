// A drive in virtual time: what is read and written is another Device's, when it is done is computed. A first model
// (one latency, one bandwidth, a queue depth); wait() moves the clock, so a whole run takes no real time at all.
//
// Threads: as Device; the clock is the caller's and may be moved by others between calls. Ownership: the device that
// holds the content is the SimDevice's; it must complete when it is polled (a MemoryDevice does).
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/request_queue.h"

namespace artesian {

struct SimDrive {
  Nanos latency{80'000};               // of one request alone, without the transfer
  double bytes_per_second = 1.4e9;     // of the bus that all requests share; transfers follow each other
  std::uint32_t queue_depth_max = 64;  // requests that the drive works on at once
  std::uint32_t queue_max = 4096;
  bool writable = true;
};

class SimDevice final : public Device {
 public:
  SimDevice(std::unique_ptr<Device> content, ManualClock& clock, SimDrive drive = {});

  const DeviceFacts& facts() const override { return facts_; }
  DeviceCounters counters() const override;
  Status submit(std::span<const IoRequest> requests) override;
  std::size_t poll(std::span<IoCompletion> out) override;
  std::size_t wait(std::span<IoCompletion> out, Nanos deadline) override;
  bool register_memory(std::span<std::byte> /*memory*/) override { return false; }
  Status discard(FileIndex file, std::uint64_t offset, std::uint64_t bytes) override;
  Status flush() override { return content_->flush(); }

 private:
  struct Active {
    Nanos finish{0};
    IoRequest request;
  };

  void start(Nanos at);
  void settle(Nanos now);  // all that is done by then, in order of time
  std::size_t deliver(std::span<IoCompletion> out);

  std::unique_ptr<Device> content_;
  ManualClock& clock_;
  SimDrive drive_;
  DeviceFacts facts_;
  std::vector<std::string> names_;
  RequestQueue queue_;
  std::deque<Active> active_;  // in order of finish: the bus serves them one after the other
  std::deque<IoCompletion> finished_;
  Nanos bus_free_{0};
  Nanos busy_{0}, busy_since_{0};
};

}  // namespace artesian
