// Streams of requests at a drive, as fio describes them, several at a time: each keeps its depth in flight, or comes at
// a rate. Deterministic: each flow has its own random numbers. Not thread safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <queue>
#include <string>
#include <vector>

#include "nand/drive.h"
#include "nand/histogram.h"

namespace artesian::nand {

enum class Access : std::uint8_t { random, sequential };

struct Flow {
  std::string name = "flow";
  double reads = 1;  // share of the requests
  std::uint64_t bytes = 4096;
  Access access = Access::random;
  std::uint64_t first = 0, length = 0;  // the region; length 0: to the end of the drive
  std::uint32_t depth = 1;
  double per_second = 0;  // above 0: requests come at this rate, at random, whatever is in flight
  IoClass io_class = IoClass::demand;
  std::uint16_t handle = 0;
  std::uint16_t queue = 0;
  std::uint8_t partition = 0;  // of the drive's read cache
  double compress = 1;         // data written shrink to so much less
  std::uint32_t hints = 0;     // reads only: the drive is told so many requests ahead what will be read
  std::uint64_t requests = 0;  // 0: until the run's time is over
  // Requests that belong together, as one lookup or one checkpoint: `group` of them, `width` at once; with steps the
  // next `width` only when all before are done. Depth, rate and number are then those of groups. 0: each by itself.
  std::uint64_t group = 0;
  std::uint32_t width = 1;
  bool steps = false;
  double every_seconds = 0;  // above 0: a group begins then and then again, whatever is in flight
};

struct FlowResult {
  std::string name;
  Histogram reads, writes;  // latency, from submission to completion
  Histogram groups;         // from the first submission to the last completion
  std::uint64_t read_bytes = 0, written_bytes = 0, failed = 0;
  Time first = 0, last = 0;  // completion

  double seconds() const { return static_cast<double>(last - first) * 1e-9; }
  double iops() const;
  double bytes_per_second() const;
  void add(const FlowResult& later);
};

// Flows at work on a drive; stopped and continued at any time.
class FlowRunner {
 public:
  // The first `warm_up` of each flow's requests are not counted.
  FlowRunner(Drive& drive, const std::vector<Flow>& flows, std::uint64_t warm_up = 0, std::uint64_t seed = 1);

  // Until virtual time `end`, or until all flows that have a number of requests are done; what is in flight then is not
  // waited for. Whether there is more to do.
  bool run_until(Time end);

  const std::vector<FlowResult>& results() const { return results_; }
  // What came since it was last taken.
  std::vector<FlowResult> take_results();

 private:
  struct Group {
    std::uint64_t left = 0;  // to be submitted
    std::uint32_t in_flight = 0;
    Time started = 0;
  };
  struct Running {
    Flow flow;
    Random random;
    std::uint64_t slots;  // places of the region
    std::uint64_t next = 0, submitted = 0, done = 0;
    std::vector<Group> groups;
    std::vector<std::uint32_t> free_groups;
    std::deque<std::uint64_t> announced;  // places of the next requests
  };
  struct Arrival {
    Time at;
    std::uint32_t flow;
    bool operator>(const Arrival& other) const { return at != other.at ? at > other.at : flow > other.flow; }
  };

  bool finished() const;
  bool advance(Time end);
  static bool more(const Running& running);
  static Time gap(Running& running);
  static std::uint64_t next_slot(Running& running);
  std::uint64_t announced_slot(std::uint32_t index);
  void start();
  static bool timed(const Flow& flow) { return flow.per_second > 0 || flow.every_seconds > 0; }
  void submit(std::uint32_t index);
  void submit_one(std::uint32_t index, std::uint32_t group);
  void go_on(std::uint32_t index, std::uint32_t group);
  void take(const HostCompletion& completion);

  Drive& drive_;
  std::uint64_t warm_up_;
  std::vector<Running> running_;
  std::vector<FlowResult> results_;
  std::vector<HostCompletion> completed_;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
  bool started_ = false;
};

// All at once; `limit` is virtual time from now on.
std::vector<FlowResult> run_flows(Drive& drive, const std::vector<Flow>& flows, Time limit, std::uint64_t warm_up = 0,
                                  std::uint64_t seed = 1);

}  // namespace artesian::nand
