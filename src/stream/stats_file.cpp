#include "stream/stats_file.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <nlohmann/json.hpp>

#include "platform/shared_mapping.h"

namespace artesian {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t magic = 0x3153544154535241ULL;  // "ARSTATS1"
constexpr std::size_t sequence_at = 8, length_at = 16, owner_at = 20, text_at = 24;
constexpr int max_tries = 1000;

// A key that is missing or of another type leaves the default.
template <typename T>
void take(const Json& object, const char* key, T& out) {
  const auto found = object.find(key);
  if (found == object.end()) return;
  if constexpr (std::is_same_v<T, std::string>) {
    if (found->is_string()) out = found->get<std::string>();
  } else {
    if (found->is_number_integer() && *found >= 0) out = found->get<T>();
  }
}

StatsSnapshot from_object(const Json& object) {
  StatsSnapshot snapshot;
  take(object, "pid", snapshot.pid);
  take(object, "state", snapshot.state);
  take(object, "reason", snapshot.reason);
  take(object, "model", snapshot.model);
  take(object, "engine", snapshot.engine);
  take(object, "budget_bytes", snapshot.budget_bytes);
  take(object, "resident_bytes", snapshot.resident_bytes);
  take(object, "committed_bytes", snapshot.committed_bytes);
  take(object, "hits", snapshot.hits);
  take(object, "misses", snapshot.misses);
  take(object, "bytes_read", snapshot.bytes_read);
  take(object, "bytes_wasted", snapshot.bytes_wasted);
  take(object, "read_busy_ns", snapshot.read_busy_ns);
  take(object, "stall_ns", snapshot.stall_ns);
  take(object, "compute_ns", snapshot.compute_ns);
  take(object, "tokens", snapshot.tokens);
  take(object, "queue_depth", snapshot.queue_depth);
  if (const auto found = object.find("decode"); found != object.end() && found->is_object()) {
    take(*found, "tokens", snapshot.decode.tokens);
    take(*found, "hits", snapshot.decode.hits);
    take(*found, "misses", snapshot.decode.misses);
    take(*found, "bytes_read", snapshot.decode.bytes_read);
    take(*found, "bytes_wasted", snapshot.decode.bytes_wasted);
    take(*found, "stall_ns", snapshot.decode.stall_ns);
    take(*found, "compute_ns", snapshot.decode.compute_ns);
  }
  if (const auto found = object.find("speculation"); found != object.end() && found->is_object()) {
    take(*found, "issued", snapshot.speculation.issued);
    take(*found, "useful", snapshot.speculation.useful);
    take(*found, "late", snapshot.speculation.late);
  }
  if (const auto found = object.find("layers"); found != object.end() && found->is_array()) {
    for (const auto& item : *found) {
      if (!item.is_object()) continue;
      LayerStats& layer = snapshot.layers.emplace_back();
      take(item, "layer", layer.layer);
      take(item, "slots", layer.slots);
      take(item, "resident", layer.resident);
      take(item, "resident_bytes", layer.resident_bytes);
      take(item, "hits", layer.hits);
      take(item, "misses", layer.misses);
    }
  }
  return snapshot;
}

std::atomic_ref<std::uint64_t> sequence_of(std::span<std::byte> memory) {
  return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(memory.data() + sequence_at));
}

bool take_over(std::span<std::byte> region, std::uint32_t from, std::uint32_t to) {
  return std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(region.data() + owner_at))
      .compare_exchange_strong(from, to);
}

// How far the door of a state was open.
std::size_t openness(const StatsSnapshot& snapshot) {
  constexpr std::array<std::string_view, 4> states = {"loading", "aside", "refused", "active"};
  return static_cast<std::size_t>(std::ranges::find(states, snapshot.state) - states.begin()) % states.size();
}

struct Header {
  std::uint64_t magic = 0, sequence = 0;
};

Result<Header> read_header(const StatsSource& source) {
  Header header;
  if (auto ok = source(0, std::as_writable_bytes(std::span(&header, 1))); !ok) return fail(ok.error());
  if (header.magic == 0) return fail(Code::not_found, "nothing was written to the stats file yet");
  if (header.magic != magic) return fail(Code::corrupt, "offset 0: this is not a stats file");
  return header;
}

}  // namespace

std::string stats_to_json(const StatsSnapshot& snapshot) {
  Json layers = Json::array();
  for (const auto& layer : snapshot.layers) {
    layers.push_back({{"layer", layer.layer},
                      {"slots", layer.slots},
                      {"resident", layer.resident},
                      {"resident_bytes", layer.resident_bytes},
                      {"hits", layer.hits},
                      {"misses", layer.misses}});
  }
  const Json object = {{"version", 1},
                       {"pid", snapshot.pid},
                       {"state", snapshot.state},
                       {"reason", snapshot.reason},
                       {"model", snapshot.model},
                       {"engine", snapshot.engine},
                       {"budget_bytes", snapshot.budget_bytes},
                       {"resident_bytes", snapshot.resident_bytes},
                       {"committed_bytes", snapshot.committed_bytes},
                       {"hits", snapshot.hits},
                       {"misses", snapshot.misses},
                       {"bytes_read", snapshot.bytes_read},
                       {"bytes_wasted", snapshot.bytes_wasted},
                       {"read_busy_ns", snapshot.read_busy_ns},
                       {"stall_ns", snapshot.stall_ns},
                       {"compute_ns", snapshot.compute_ns},
                       {"tokens", snapshot.tokens},
                       {"queue_depth", snapshot.queue_depth},
                       {"decode",
                        {{"tokens", snapshot.decode.tokens},
                         {"hits", snapshot.decode.hits},
                         {"misses", snapshot.decode.misses},
                         {"bytes_read", snapshot.decode.bytes_read},
                         {"bytes_wasted", snapshot.decode.bytes_wasted},
                         {"stall_ns", snapshot.decode.stall_ns},
                         {"compute_ns", snapshot.decode.compute_ns}}},
                       {"speculation",
                        {{"issued", snapshot.speculation.issued},
                         {"useful", snapshot.speculation.useful},
                         {"late", snapshot.speculation.late}}},
                       {"layers", std::move(layers)}};
  // A path may hold any bytes; JSON may not.
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<StatsSnapshot> stats_from_json(std::string_view text) {
  const Json object = Json::parse(text, nullptr, false);
  if (object.is_discarded() || !object.is_object()) return fail(Code::corrupt, "the stats are not a JSON object");
  return from_object(object);
}

std::span<std::byte> claim_stats_region(std::span<std::byte> file, int pid,
                                        const std::function<bool(int pid)>& process_lives) {
  const auto self = static_cast<std::uint32_t>(pid);
  const auto region = [&](std::size_t i) { return file.subspan(i * stats_region_bytes, stats_region_bytes); };
  const std::size_t count = file.size() / stats_region_bytes;
  for (std::size_t i = 0; i < count; ++i) {
    if (take_over(region(i), 0, self)) return region(i);
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t owner = 0;
    std::memcpy(&owner, region(i).data() + owner_at, sizeof owner);
    if (!process_lives(static_cast<int>(owner)) && take_over(region(i), owner, self)) return region(i);
  }
  return {};
}

StatsWriter::StatsWriter(std::span<std::byte> memory) : memory_(memory) {
  // A writer that died half way left an odd number: what it wrote is replaced by the first write.
  auto sequence = sequence_of(memory_);
  sequence.store(sequence.load(std::memory_order_relaxed) & ~std::uint64_t{1}, std::memory_order_relaxed);
}

void StatsWriter::write(const StatsSnapshot& snapshot) {
  std::string text = stats_to_json(snapshot);
  if (text.size() > memory_.size() - text_at) {
    StatsSnapshot brief = snapshot;
    brief.layers.clear();
    text = stats_to_json(brief);
    if (text.size() > memory_.size() - text_at) return;
  }
  auto sequence = sequence_of(memory_);
  const std::uint64_t before = sequence.load(std::memory_order_relaxed);
  sequence.store(before + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  const auto length = static_cast<std::uint32_t>(text.size());
  std::memcpy(memory_.data() + length_at, &length, sizeof length);
  std::memcpy(memory_.data() + text_at, text.data(), text.size());
  std::memcpy(memory_.data(), &magic, sizeof magic);
  sequence.store(before + 2, std::memory_order_release);
}

Result<StatsSnapshot> read_stats(const StatsSource& region) {
  for (int attempt = 0; attempt < max_tries; ++attempt) {
    const auto before = read_header(region);
    if (!before) return fail(before.error());
    if (before->sequence % 2 != 0) continue;
    std::uint32_t length = 0;
    if (auto ok = region(length_at, std::as_writable_bytes(std::span(&length, 1))); !ok) return fail(ok.error());
    std::string text;
    if (length <= stats_region_bytes - text_at) {
      text.resize(length);
      if (auto ok = region(text_at, std::as_writable_bytes(std::span(text))); !ok) return fail(ok.error());
    }
    const auto after = read_header(region);
    if (!after) return fail(after.error());
    if (after->sequence != before->sequence) continue;
    if (length > stats_region_bytes - text_at) {
      return fail(Code::corrupt, "offset {}: a length of {} does not fit the stats file", length_at, length);
    }
    return stats_from_json(text);
  }
  return fail(Code::retry, "the stats file was being written at every try");
}

namespace {
constexpr std::uint64_t DecodeStats::* decode_sums[] = {
    &DecodeStats::tokens,       &DecodeStats::hits,     &DecodeStats::misses,    &DecodeStats::bytes_read,
    &DecodeStats::bytes_wasted, &DecodeStats::stall_ns, &DecodeStats::compute_ns};
}  // namespace

DecodeStats& DecodeStats::operator+=(const DecodeStats& other) {
  for (const auto sum : decode_sums) this->*sum += other.*sum;
  return *this;
}

DecodeStats& DecodeStats::operator-=(const DecodeStats& other) {
  for (const auto sum : decode_sums) this->*sum -= other.*sum;
  return *this;
}

Result<std::vector<StatsSnapshot>> read_all_stats(const StatsSource& file) {
  std::vector<StatsSnapshot> snapshots;
  Error bad{Code::not_found, "nothing was written to the stats file yet"};
  for (std::size_t i = 0; i < stats_regions; ++i) {
    auto one = read_stats(
        [&](std::uint64_t offset, std::span<std::byte> out) { return file(i * stats_region_bytes + offset, out); });
    if (one) {
      snapshots.push_back(std::move(*one));
    } else if (one.error().code != Code::not_found) {
      bad = std::move(one.error());
    }
  }
  if (snapshots.empty()) return fail(std::move(bad));
  return snapshots;
}

StatsSnapshot add_up(std::span<const StatsSnapshot> snapshots) {
  const auto furthest = std::ranges::max_element(snapshots, {}, openness);
  StatsSnapshot sum = *furthest;
  for (const StatsSnapshot& one : snapshots) {
    if (&one == &*furthest) continue;
    sum.budget_bytes += one.budget_bytes;
    sum.resident_bytes += one.resident_bytes;
    sum.committed_bytes += one.committed_bytes;
    sum.hits += one.hits;
    sum.misses += one.misses;
    sum.bytes_read += one.bytes_read;
    sum.bytes_wasted += one.bytes_wasted;
    sum.read_busy_ns += one.read_busy_ns;
    sum.stall_ns += one.stall_ns;
    sum.compute_ns += one.compute_ns;
    sum.tokens += one.tokens;
    sum.queue_depth += one.queue_depth;
    sum.decode += one.decode;
    sum.speculation.issued += one.speculation.issued;
    sum.speculation.useful += one.speculation.useful;
    sum.speculation.late += one.speculation.late;
    sum.layers.insert(sum.layers.end(), one.layers.begin(), one.layers.end());
  }
  return sum;
}

Result<std::vector<StatsSnapshot>> read_stats_file(const std::string& path) {
  const auto file = SharedFileReader::open(path);
  if (!file) return fail(file.error());
  return read_all_stats([&](std::uint64_t offset, std::span<std::byte> out) { return file->read(offset, out); });
}

}  // namespace artesian
