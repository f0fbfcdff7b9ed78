#include "sim/serving.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "base/units.h"
#include "nand/measures.h"
#include "sim/expert_decoding.h"
#include "sim/kv_serving.h"
#include "sim/store_identity.h"
#include "store/engine.h"

namespace artesian::sim {
namespace {

using nand::NandDevice;
using nand::RunReport;
using nand::Workload;

constexpr Nanos sample_min = std::chrono::milliseconds(5);
constexpr int samples_a_doubling = 32;   // of the time so far
constexpr std::uint64_t step = 1 * MiB;  // of places on the drive: any map unit divides it
constexpr std::uint64_t least_segments = 8;
constexpr double bytes_read_at_once = 128.0 * KiB;

std::filesystem::path found(const std::string& file, const std::filesystem::path& traces) {
  std::error_code error;
  const std::filesystem::path given(file);
  return traces.empty() || given.is_absolute() || std::filesystem::exists(given, error) ? given : traces / given;
}

// Where what lies on the drive: experts first, then the store.
struct Parts {
  std::uint64_t weights = 0, store = 0, segment = 0;
  std::vector<std::uint64_t> files() const { return {weights, store}; }
};

class Server {
 public:
  Server(const nand::Profile& whole, const Workload& workload, const std::function<void(double)>& progress)
      : workload_(workload),
        progress_(progress),
        report_{.profile = whole, .whole_bytes = whole.capacity_bytes, .workload = workload} {}

  Result<RunReport> run(const std::filesystem::path& traces) {
    if (auto ready = prepare(traces); !ready) return fail(ready.error());
    if (routes_) {
      if (auto made = make_experts(); !made) return fail(made.error());
    }
    if (trace_) {
      if (auto made = make_store(); !made) return fail(made.error());
    }
    recorder_.emplace(report_, drive_->drive());
    if (auto served = serve(); !served && !drive_->drive().worn_out()) return fail(served.error());
    return finish();
  }

  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() {
    if (node_) node_->remove_actors();
    engine_.reset();  // what it writes last needs the node
  }

 private:
  Status read_traces(const std::filesystem::path& traces) {
    const nand::Serving& serving = workload_.serving;
    if (!serving.trace.empty()) {
      auto trace = bench::read_kv_trace(found(serving.trace, traces));
      if (!trace) return fail(trace.error());
      trace_ = std::move(*trace);
    }
    if (!serving.routes.empty()) {
      auto routes = bench::read_route_trace(found(serving.routes, traces));
      if (!routes) return fail(routes.error());
      routes_ = std::move(*routes);
    }
    return {};
  }

  Status prepare(const std::filesystem::path& traces) {
    if (auto read = read_traces(traces); !read) return read;
    auto part = nand::simulated_part(report_.profile, workload_);
    if (!part) return fail(part.error());
    report_.profile = std::move(*part);
    if (auto placed = place(); !placed) return placed;
    const nand::Serving& serving = workload_.serving;
    auto drive = NandDevice::open(report_.profile, parts_.files(), clock_,
                                  {.queue_max = 1U << 20,
                                   .seed = workload_.seed,
                                   .files = {{.compress = serving.weights_compress, .partition = 0},
                                             {.compress = serving.kv_compress, .partition = 1}}});
    if (!drive) return fail(drive.error());
    drive_ = std::move(*drive);
    nand::prepare_drive(drive_->drive(), workload_);
    node_ = std::make_unique<Node>(*drive_, clock_);
    weights_ = &node_->add_device("weights", 0, 1);
    kv_ = &node_->add_device("KV", 1, 1);
    return {};
  }

  Status place() {
    const std::uint64_t capacity = report_.profile.capacity_bytes;
    if (routes_) parts_.weights = align_up(ExpertDecoding::file_bytes(*routes_), step);
    if (!trace_) {
      return parts_.weights <= capacity ? Status() : too_small("the experts", parts_.weights);
    }
    const std::uint64_t block = KvServing::block_bytes(workload_.serving);
    // A segment is a reclaim unit, or as many blocks as make its frame small.
    parts_.segment = std::clamp(align_up(report_.profile.superblock_bytes(), step), align_up(8 * block, step),
                                align_up(std::max(64 * block, 256 * MiB), step));
    const std::uint64_t left = capacity - std::min(capacity, parts_.weights + step);
    parts_.store =
        workload_.serving.store_bytes != 0 ? align_up(workload_.serving.store_bytes, step) : align_down(left, step);
    if (parts_.store > left) return too_small("experts and store", parts_.weights + parts_.store);
    if (parts_.store < least_segments * parts_.segment) {
      return fail(Code::invalid, "{}: a store of {} has no {} segments of {}", workload_.name,
                  format_bytes(parts_.store), least_segments, format_bytes(parts_.segment));
    }
    return {};
  }

  Status too_small(std::string_view what, std::uint64_t bytes) const {
    return fail(Code::invalid, "{}: {} of {} do not fit the {} of {} that are simulated", workload_.name, what,
                format_bytes(bytes), format_bytes(report_.profile.capacity_bytes), report_.profile.name);
  }

  Status make_experts() {
    if (auto put = ExpertDecoding::preload(*drive_, 0, *routes_); !put) return put;
    auto experts = ExpertDecoding::create(*node_, *weights_, clock_, *routes_, workload_.serving);
    if (!experts) return fail(experts.error());
    experts_ = std::move(*experts);
    return {};
  }

  Status make_store() {
    const nand::Serving& serving = workload_.serving;
    const StoreGeometry geometry{.segment_bytes = parts_.segment, .block_bytes_max = KvServing::block_bytes(serving)};
    if (auto formatted = format_store(*kv_, geometry, store_identity(workload_.seed)); !formatted) return formatted;
    auto engine = Engine::open(*kv_, clock_, {.memory_bytes = 0});
    if (!engine) return fail(engine.error());
    engine_ = std::move(*engine);
    auto ns = engine_->open_namespace(
        {.model = "sim", .weights = "sim", .block_tokens = bench::kv_block_tokens, .policy = serving.policy});
    if (!ns) return fail(ns.error());
    const double bandwidth =
        nand::read_ceiling(report_.profile, static_cast<std::uint64_t>(bytes_read_at_once)).least() *
        bytes_read_at_once;
    auto made = KvServing::create(*engine_, *ns, clock_, *trace_, serving, bandwidth);
    if (!made) return fail(made.error());
    serving_ = std::move(*made);
    node_->add_actor(*serving_, *kv_);
    return {};
  }

  Status serve() {
    drive_->drive().reset_counters();
    start_ = sampled_ = clock_.now();
    if (experts_) {
      if (auto done = experts_->prompt(); !done) return done;
      for (std::uint64_t token = 0; token < experts_->tokens(); ++token) {
        if (auto done = experts_->decode(token); !done) return done;
        if (serving_ && !serving_->status()) return serving_->status();
        sample(serving_ ? 0 : static_cast<double>(token + 1) / static_cast<double>(experts_->tokens()));
        if (drive_->drive().worn_out()) return {};
      }
    }
    while (serving_ && !serving_->finished() && !drive_->drive().worn_out()) {
      if (!node_->advance(clock_.now() + std::chrono::seconds(1)) && serving_->next() == Nanos::max()) serving_->act();
      sample(serving_->progress());
    }
    return serving_ ? serving_->status() : Status();
  }

  void sample(double part) {
    const Nanos now = clock_.now();
    if (now - sampled_ < std::max(sample_min, (now - start_) / samples_a_doubling)) return;
    sampled_ = now;
    recorder_->step(node_->take_results());
    if (progress_) progress_(part);
  }

  RunReport finish() {
    recorder_->step(node_->take_results());
    nand::TokenReport tokens;
    tokens.seconds = static_cast<double>((clock_.now() - start_).count()) * 1e-9;
    if (experts_) tokens.add(experts_->report());
    if (serving_) {
      tokens.add(serving_->report());
      tokens.store_written = engine_->stats().bytes_written;
      tokens.store_carried = engine_->stats().bytes_carried;
    }
    recorder_->finish();
    report_.tokens = std::move(tokens);
    return std::move(report_);
  }

  const Workload& workload_;
  const std::function<void(double)>& progress_;
  RunReport report_;
  std::optional<bench::KvTrace> trace_;
  std::optional<bench::RouteTrace> routes_;
  Parts parts_;
  ManualClock clock_;
  std::unique_ptr<NandDevice> drive_;
  std::unique_ptr<Node> node_;
  Device* weights_ = nullptr;
  Device* kv_ = nullptr;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<KvServing> serving_;
  std::unique_ptr<ExpertDecoding> experts_;
  std::optional<nand::Recorder> recorder_;
  Nanos start_{0}, sampled_{0};
};

}  // namespace

Result<RunReport> run_any(const nand::Profile& profile, const Workload& workload, const std::filesystem::path& traces,
                          const std::function<void(double)>& progress) {
  if (!workload.serving.any()) return nand::run_workload(profile, workload, progress);
  return Server(profile, workload, progress).run(traces);
}

}  // namespace artesian::sim
