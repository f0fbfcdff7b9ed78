// A page of the pin table: blocks that somebody has pinned under a name, until they are unpinned. As docs/format.md
// lays it out, between namespace table and segments; what is read is taken for hostile.
//
// Threads: pure. Errors: not_found for a page that was never written, corrupt for one that is not good.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "format/sealer.h"

namespace artesian {

constexpr std::uint32_t pin_slots = 112;  // two pages each
constexpr std::size_t pin_name_limit = 64;
constexpr std::size_t pins_a_slot = 245;
constexpr std::uint64_t pin_table_offset = namespace_slot_offset(namespace_slots, 0);
constexpr std::uint64_t pin_slot_offset(std::uint32_t slot, std::uint32_t copy) {
  return pin_table_offset + (slot * 2 + copy) * store_page;
}
static_assert(pin_slot_offset(pin_slots, 0) == store_data_offset);

struct PinSlot {
  std::uint64_t revision = 0;
  std::string name;  // empty: the slot is free
  SealScope ns;      // in whose present epoch it holds
  std::vector<KeyHash> keys;
};

[[nodiscard]] bool encode_pin_slot(const PinSlot& slot, const Id& store, std::span<std::byte> page,
                                   const Seal* seal = nullptr);
Result<PinSlot> parse_pin_slot(std::span<const std::byte> page, const Id& store, const Sealer* sealer = nullptr);

}  // namespace artesian
