// Brings byte ranges of a model's files into memory through a Device, and knows when all of a piece has arrived. A
// range is cut into even requests of about `request_bytes`; where memory and file agree modulo the device's alignment
// the device reads straight into place, else through a bounce buffer. A request that fails is tried once more, then the
// piece has failed.
//
// Threads: one caller at a time. Nothing here starts a thread: completions are taken in poll() and wait().
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/clock.h"
#include "device/device.h"
#include "platform/arena.h"

namespace artesian {

// One range being loaded. Belongs to the caller and must not move until `pending` is 0.
struct Load {
  std::uint32_t pending = 0;  // requests that have not arrived
  bool failed = false;
  bool ready() const { return pending == 0 && !failed; }
};

struct LoadRange {
  FileIndex file = 0;
  std::uint64_t offset = 0;  // bytes in the file
  std::uint64_t bytes = 0;
  // Where byte `offset` goes. With slack, up to one alignment before and after belong to the load as well.
  std::byte* destination = nullptr;
};

struct LoaderCounters {
  std::uint64_t bytes_read = 0;
  Nanos stalled{0};  // time spent in wait()
};

class Loader {
 public:
  // Where drives and kernels are at their best: longer requests are cut up again on the way, shorter ones cost more
  // calls.
  static constexpr std::uint64_t request_bytes = 512U << 10;
  static constexpr std::uint64_t request_bytes_max = request_bytes + request_bytes / 2;
  static constexpr std::uint32_t bounce_buffers = 16;
  // On their way to the device at once: beyond the first of these a drive only gets slower. But where a long compute
  // follows, nobody will be there to start more for a while: then the second holds.
  static constexpr std::uint64_t in_flight_bytes_max = 24U << 20;
  static constexpr std::uint64_t in_flight_bytes_max_long = 64U << 20;
  // Guesses on their way to the device at once. They must fill the time in which nobody takes completions, and be few
  // enough that what turns out to be needed need not wait long behind them. The rest waits here and may be dropped.
  static constexpr std::uint64_t guess_bytes_max = 3U << 20;

  enum class Urgency : std::uint8_t {
    needed,    // somebody waits, or will at once
    expected,  // certain to be needed, later
    guessed,   // may be needed
  };

  static Result<Loader> create(Device& device, const Clock& clock);

  // Starts (or queues) the reads of a range; errors turn up in `load`.
  void start(Load& load, const LoadRange& range, Urgency urgency);
  // Do long computes follow (a batch of many tokens), in which nobody polls?
  void set_long_computes(bool value) { in_flight_max_ = value ? in_flight_bytes_max_long : in_flight_bytes_max; }

  // What was guessed is needed now.
  void promote(const Load& load);
  // What was guessed is not needed after all: reads that have not begun never will, and the load has failed.
  void drop(Load& load);
  void poll();
  // Returns when something arrived, or nothing is on its way.
  void wait();
  // Waits for this load; corrupt or device_failed with file and offset when it did not arrive.
  Status finish(Load& load);
  // Waits for everything.
  void drain();

  bool idle() const { return in_flight_ == 0 && queue_.empty() && guesses_.empty(); }
  const LoaderCounters& counters() const { return counters_; }
  const Error& last_error() const { return last_error_; }

 private:
  struct Piece {
    Load* load = nullptr;
    IoRequest request;
    std::uint64_t wanted = 0;      // bytes of the request that must arrive
    std::byte* copy_to = nullptr;  // bounced: where the bytes belong,
    std::uint64_t copy_from = 0;   // and where in the buffer they start,
    std::uint64_t copy_bytes = 0;  // and how many
    std::uint32_t bounce = 0;
    bool retried = false;
  };

  Loader(Device& device, const Clock& clock, Arena bounce);
  void push(Load& load, const LoadRange& range, std::uint64_t first, std::uint64_t last, Urgency urgency, bool direct);
  bool next(Piece& piece);
  void pump();
  void complete(const IoCompletion& completion);

  Device* device_;
  const Clock* clock_;
  Arena bounce_;
  std::vector<std::uint32_t> bounce_free_;
  std::vector<Piece> pieces_;
  std::vector<std::uint32_t> free_;
  std::deque<Piece> queue_, guesses_;  // not begun yet; the device orders what it is given by class
  std::uint32_t in_flight_ = 0;
  std::uint64_t in_flight_bytes_ = 0;
  std::uint64_t in_flight_max_ = in_flight_bytes_max;
  LoaderCounters counters_;
  Error last_error_;
};

}  // namespace artesian
