#include "library/metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <sstream>

namespace artesian {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

// One a figure: its name with the unit, as Prometheus wants it, and what it is.
struct Row {
  const char* name;
  const char* help;
  MetricType type;
  std::uint64_t StoreStats::* figure;
};

constexpr auto counter = MetricType::Counter, gauge = MetricType::Gauge;
constexpr Row rows[] = {
    {"artesian_store_blocks", "Blocks in the store", gauge, &StoreStats::blocks},
    {"artesian_store_capacity_bytes", "Cap of all paths, metadata included", gauge, &StoreStats::capacity_bytes},
    {"artesian_store_live_bytes", "Bytes on flash of blocks that can be read", gauge, &StoreStats::live_bytes},
    {"artesian_store_segments", "Segments of all paths", gauge, &StoreStats::segments},
    {"artesian_store_segments_free", "Segments that are empty", gauge, &StoreStats::segments_free},
    {"artesian_store_hits_total", "Gets that gave a block", counter, &StoreStats::hits},
    {"artesian_store_memory_hits_total", "Of these, from the memory tier", counter, &StoreStats::memory_hits},
    {"artesian_store_misses_total", "Gets of blocks that are not there", counter, &StoreStats::misses},
    {"artesian_store_corrupt_total", "Blocks that were not what they must be, and were forgotten", counter,
     &StoreStats::corrupt},
    {"artesian_store_late_total", "Requests whose deadline passed before they were begun", counter, &StoreStats::late},
    {"artesian_store_failed_total", "Gets that the device failed", counter, &StoreStats::failed},
    {"artesian_store_staged_total", "Blocks brought into memory ahead of time", counter, &StoreStats::staged},
    {"artesian_store_stored_total", "Puts that were written", counter, &StoreStats::stored},
    {"artesian_store_present_total", "Puts of blocks that were there", counter, &StoreStats::present},
    {"artesian_store_shed_total", "Puts that were dropped, since reads go first or there was no room", counter,
     &StoreStats::shed},
    {"artesian_store_refused_total", "Puts that policy or budget refused", counter, &StoreStats::refused},
    {"artesian_store_put_failed_total", "Puts that the device failed", counter, &StoreStats::put_failed},
    {"artesian_store_read_bytes_total", "Bytes of blocks read from flash", counter, &StoreStats::bytes_read},
    {"artesian_store_put_bytes_total", "Bytes of blocks written", counter, &StoreStats::bytes_put},
    {"artesian_store_saved_bytes_total", "Bytes that codecs saved of these", counter, &StoreStats::bytes_saved},
    {"artesian_store_carried_bytes_total", "Bytes carried forward from segments that gave way", counter,
     &StoreStats::bytes_carried},
    {"artesian_store_written_bytes_total", "All bytes written, headers and all", counter, &StoreStats::bytes_written},
    {"artesian_store_evicted_total", "Blocks that gave way", counter, &StoreStats::evicted},
    {"artesian_store_carried_total", "Blocks carried forward", counter, &StoreStats::carried},
    {"artesian_store_erased_total", "Blocks that were erased", counter, &StoreStats::erased},
    {"artesian_store_pinned", "Blocks that are pinned", gauge, &StoreStats::pinned},
    {"artesian_store_index_memory_bytes", "Memory of the index", gauge, &StoreStats::index_bytes},
    {"artesian_store_tier_memory_bytes", "Memory of the memory tier", gauge, &StoreStats::memory_bytes},
    {"artesian_store_buffer_memory_bytes", "Memory of what is on its way", gauge, &StoreStats::buffer_bytes},
    {"artesian_store_records_skipped_total", "Broken records that were found at opening", counter,
     &StoreStats::records_skipped},
};

std::vector<MetricFamily> families_of(const StoreStats& stats) {
  std::vector<MetricFamily> families;
  const auto add = [&](const char* name, const char* help, MetricType type, double value) {
    prometheus::ClientMetric metric;
    (type == counter ? metric.counter.value : metric.gauge.value) = value;
    families.push_back({name, help, type, {metric}});
  };
  for (const Row& row : rows) add(row.name, row.help, row.type, static_cast<double>(stats.*row.figure));
  add("artesian_store_paths", "Paths that the store has", gauge, stats.paths);
  add("artesian_store_paths_failed", "Of these, such as take no more writes", gauge, stats.paths_failed);
  return families;
}

class Figures final : public prometheus::Collectable {
 public:
  explicit Figures(const Store& store) : store_(store) {}
  std::vector<MetricFamily> Collect() const override { return families_of(store_.stats()); }

 private:
  const Store& store_;
};

class Endpoint final : public MetricsEndpoint {
 public:
  Endpoint(const Store& store, const std::string& address)
      : figures_(std::make_shared<Figures>(store)), exposer_(address, 1) {
    exposer_.RegisterCollectable(figures_);
  }
  int port() const override { return exposer_.GetListeningPorts().front(); }

 private:
  std::shared_ptr<Figures> figures_;
  prometheus::Exposer exposer_;  // goes first
};

}  // namespace

Result<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::serve(Store& store, const std::string& address) {
  const auto colon = address.rfind(':');
  const std::string port = colon == std::string::npos ? address : address.substr(colon + 1);
  std::uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc() || end != port.data() + port.size()) {
    return fail(Code::invalid, "metrics: '{}' is no address; 9464 and 127.0.0.1:9464 are", address);
  }
  try {
    return std::make_unique<Endpoint>(store, colon == std::string::npos ? "127.0.0.1:" + address : address);
  } catch (const std::exception& thrown) {  // the library's way to say that it cannot listen there
    return fail(Code::rejected, "metrics: {} cannot be listened at: {}", address, thrown.what());
  }
}

std::string metrics_text(const StoreStats& stats) {
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, families_of(stats));
  return text.str();
}

}  // namespace artesian
