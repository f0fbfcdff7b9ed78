#include "bench/kv_replay.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace artesian::bench {

namespace {

constexpr std::string_view blocks_shape = "blocks";

const KvReplayRow* row_named(const KvReplayCase& run, std::string_view name, std::string_view shape) {
  for (const KvReplayRow& row : run.rows) {
    if (row.name == name && row.shape.starts_with(shape)) return &row;
  }
  return nullptr;
}

KvReplayCase replay_capacity(const KvTrace& trace, const KvReplaySettings& settings, std::size_t capacity,
                             const KvProgress& progress) {
  KvReplayCase run{capacity, {}};
  const KvCount lru = kv_lru(trace, capacity);
  const auto add = [&](std::string name, std::string shape, const KvCount& count) {
    run.rows.push_back(kv_replay_row(std::move(name), std::move(shape), count, lru.written));
  };
  const std::string blocks(blocks_shape);
  add("lru", blocks, lru);
  add("s3-fifo", blocks, kv_s3_fifo(trace, capacity));
  const auto budget = static_cast<std::uint64_t>(settings.budget_of_lru * static_cast<double>(lru.written));
  std::vector<std::pair<std::string, KvPolicyRun>> runs;
  for (const KvAdmissionInfo& admission : kv_admissions()) {
    const bool worth = admission.name == "worth";
    runs.push_back({blocks, {&admission, nullptr, worth, capacity, 0, budget}});
  }
  for (const KvEvictionInfo& eviction : kv_evictions()) {
    runs.push_back({fmt::format("segments of {}, {}", settings.segment_blocks, eviction.name),
                    {find_kv_admission("worth"), &eviction, false, capacity, settings.segment_blocks, budget}});
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto& [shape, policy] = runs[i];
    const auto whole = static_cast<double>(runs.size());
    add(std::string(policy.admission->name), shape, kv_policy(trace, policy, [&](double part) {
          if (progress) progress((static_cast<double>(i) + part) / whole);
        }));
  }
  KvPolicyRun unlimited{find_kv_admission("second-sighting"), nullptr, false, capacity, 0, 0};
  add("second-sighting, no budget", blocks, kv_policy(trace, unlimited, {}));
  add("optimum", blocks, kv_optimum(trace, capacity));
  return run;
}

}  // namespace

KvReplayRow kv_replay_row(std::string name, std::string shape, const KvCount& count, std::uint64_t lru_written) {
  KvReplayRow row;
  row.name = std::move(name);
  row.shape = std::move(shape);
  row.hit = static_cast<double>(count.hits) / static_cast<double>(count.uses);
  row.late_hit = count.late_uses == 0 ? 0 : static_cast<double>(count.late_hits) / static_cast<double>(count.late_uses);
  row.written = count.written;
  row.carried = count.carried;
  row.of_lru = lru_written == 0 ? 0 : static_cast<double>(count.written) / static_cast<double>(lru_written);
  row.read_saved = count.written == 0 ? 0 : static_cast<double>(count.hits) / static_cast<double>(count.written);
  return row;
}

Status check_kv_capacity(std::size_t capacity, const KvReplaySettings& settings) {
  if (settings.segment_blocks > 0 && capacity >= 4 * settings.segment_blocks) return {};
  return fail(Code::invalid, "a capacity of {} blocks is below four segments of {}", capacity, settings.segment_blocks);
}

Result<std::vector<KvReplayCase>> replay_kv(const KvTrace& trace, const KvReplaySettings& settings,
                                            const std::function<void(double part)>& progress) {
  std::vector<KvReplayCase> cases;
  for (const std::size_t capacity : settings.capacities) {
    if (auto checked = check_kv_capacity(capacity, settings); !checked) return fail(std::move(checked.error()));
    const double before = static_cast<double>(cases.size());
    cases.push_back(replay_capacity(trace, settings, capacity, [&](double part) {
      if (progress) progress((before + part) / static_cast<double>(settings.capacities.size()));
    }));
  }
  return cases;
}

std::string kv_replay_text(std::span<const KvReplayCase> cases, std::uint64_t block_bytes) {
  std::string out = fmt::format("{:>8}  {:<28}{:<24}{:>7}{:>13}{:>12}{:>9}{:>12}{:>14}\n", "blocks", "admission",
                                "eviction", "hit", "second half", "written", "of LRU", "carried", "hits / write");
  for (const KvReplayCase& run : cases) {
    for (const KvReplayRow& row : run.rows) {
      out += fmt::format("{:>8}  {:<28}{:<24}{:>7.4f}{:>13.4f}{:>12}{:>9.3f}{:>12}{:>14.2f}\n", run.capacity, row.name,
                         row.shape, row.hit, row.late_hit, format_bytes(row.written * block_bytes), row.of_lru,
                         format_bytes(row.carried * block_bytes), row.read_saved);
    }
  }
  return out;
}

std::string kv_replay_json(std::span<const KvReplayCase> cases, std::uint64_t block_bytes) {
  nlohmann::json list = nlohmann::json::array();
  for (const KvReplayCase& run : cases) {
    for (const KvReplayRow& row : run.rows) {
      list.push_back({{"capacity_blocks", run.capacity},
                      {"admission", row.name},
                      {"eviction", row.shape},
                      {"hit", row.hit},
                      {"hit_second_half", row.late_hit},
                      {"written_bytes", row.written * block_bytes},
                      {"carried_bytes", row.carried * block_bytes},
                      {"written_of_lru", row.of_lru},
                      {"hits_per_write", row.read_saved}});
    }
  }
  return list.dump(2);
}

std::vector<GoalFigure> kv_replay_figures(std::span<const KvReplayCase> cases) {
  std::vector<GoalFigure> figures;
  for (const std::size_t capacity : {std::size_t{5'000}, std::size_t{10'000}}) {
    GoalFigure hit{fmt::format("kv.replay.{}.hit", capacity), {}, {}, "not replayed"};
    GoalFigure writes{fmt::format("kv.replay.{}.writes", capacity), {}, {}, "not replayed"};
    const auto run = std::ranges::find(cases, capacity, &KvReplayCase::capacity);
    const KvReplayRow* alone = run == cases.end() ? nullptr : row_named(*run, "worth", blocks_shape);
    const KvReplayRow* store = run == cases.end() ? nullptr : row_named(*run, "shared", "store");
    if (const KvReplayRow* ours = alone != nullptr ? alone : store) {
      hit.figure = ours->hit;
      writes.figure = 100 * ours->of_lru;
      hit.note = "in a store, by segments, headers and frames counted as written";
      writes.note.clear();
    }
    if (alone != nullptr) {
      hit.limit = row_named(*run, "optimum", blocks_shape)->hit;
      hit.note = fmt::format("block by block, like LRU beside it; in segments {:.4f}",
                             row_named(*run, "worth", "segments")->hit);
    }
    figures.push_back(std::move(hit));
    figures.push_back(std::move(writes));
  }
  return figures;
}

}  // namespace artesian::bench
