// The counts of StoreStats by the names under which programs ask for them, in JSON and in Python.
#pragma once

#include "artesian/store.h"

namespace artesian {

struct StatRow {
  const char* name;
  std::uint64_t StoreStats::* figure;
};

inline constexpr StatRow stat_rows[] = {
    {"blocks", &StoreStats::blocks},
    {"capacity_bytes", &StoreStats::capacity_bytes},
    {"live_bytes", &StoreStats::live_bytes},
    {"segments", &StoreStats::segments},
    {"segments_free", &StoreStats::segments_free},
    {"hits", &StoreStats::hits},
    {"memory_hits", &StoreStats::memory_hits},
    {"misses", &StoreStats::misses},
    {"corrupt", &StoreStats::corrupt},
    {"late", &StoreStats::late},
    {"failed", &StoreStats::failed},
    {"staged", &StoreStats::staged},
    {"stored", &StoreStats::stored},
    {"present", &StoreStats::present},
    {"shed", &StoreStats::shed},
    {"put_failed", &StoreStats::put_failed},
    {"refused", &StoreStats::refused},
    {"write_bytes_per_day", &StoreStats::write_bytes_per_day},
    {"written_bytes", &StoreStats::written_ever},
    {"bytes_read", &StoreStats::bytes_read},
    {"bytes_put", &StoreStats::bytes_put},
    {"bytes_saved", &StoreStats::bytes_saved},
    {"bytes_carried", &StoreStats::bytes_carried},
    {"bytes_written", &StoreStats::bytes_written},
    {"evicted", &StoreStats::evicted},
    {"carried", &StoreStats::carried},
    {"erased", &StoreStats::erased},
    {"segments_reclaimed", &StoreStats::segments_reclaimed},
    {"pinned", &StoreStats::pinned},
    {"records_skipped", &StoreStats::records_skipped},
    {"index_bytes", &StoreStats::index_bytes},
    {"memory_bytes", &StoreStats::memory_bytes},
    {"buffer_bytes", &StoreStats::buffer_bytes},
    {"read_us_p50", &StoreStats::read_us_p50},
    {"read_us_p99", &StoreStats::read_us_p99},
    {"write_us_p50", &StoreStats::write_us_p50},
    {"write_us_p99", &StoreStats::write_us_p99},
};

}  // namespace artesian
