// Which KV blocks are written to flash, and which stay. Facts in, decision out, no I/O, no clock: `now` comes with the
// call and never goes back. A policy is made by name from a registry (kv_policy.cpp); a new one is one pair of files
// and one row. Not thread safe; deterministic. docs/decisions/0008-kv-policies.md has what was tried.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/key_hash.h"
#include "base/result.h"

namespace artesian {

struct KvFacts {               // what is known of a block
  KeyHash key, parent;         // parent none: a root
  std::uint32_t pages = 0;     // of 4 KiB on flash, header included
  std::uint32_t position = 0;  // blocks before it in its prompt
  bool partial = false;        // the end of a prompt, shorter than the namespace's blocks
  bool parent_stored = false;  // the parent is in the store; roots count as if theirs were
};

// One per namespace; all of a store share a KvShared.
class KvAdmission {
 public:
  virtual ~KvAdmission() = default;

  // A prompt was looked up: all its blocks, root first, stored or not. Before the puts that follow from it.
  virtual void on_prompt(std::span<const KvFacts> prompt, Nanos now) = 0;

  // Asked once for each put of a block that is not there, before anything is written; true takes its bytes off the
  // budget. Of blocks that no prompt has named a put counts as a sighting. But for first-sight, a block whose parent is
  // not stored is refused: no prefix reaches it.
  virtual bool admit(const KvFacts& block, Nanos now) = 0;
};

// One per namespace. Which segment is reclaimed is not asked: they go in the order of arrival. State of 56 bits a block
// lies in the store's index and is handed back with each question; 0 is that of a block of which nothing is known.
class KvEviction {
 public:
  virtual ~KvEviction() = default;

  virtual std::uint64_t on_put(const KvFacts& block, Nanos now) = 0;                       // the block's state
  virtual std::uint64_t on_hit(const KvFacts& block, std::uint64_t state, Nanos now) = 0;  // the new ones

  // Somebody knows better than the past: `wanted` again before long, or not any more. The new state.
  virtual std::uint64_t on_outlook(const KvFacts& block, std::uint64_t state, bool wanted, Nanos now) = 0;

  // Of the live blocks of a segment that is reclaimed, which are carried forward: at most `pages_max` pages, what the
  // budget allows, and no block whose parent is not there or stood in the same segment and goes: leaf before root.
  // `out` gets one entry a block; the states of those carried become what they are from then on. Pinned ones are not
  // asked about.
  virtual void carry(std::span<const KvFacts> blocks, std::span<std::uint64_t> states, std::uint64_t pages_max,
                     Nanos now, std::vector<bool>& out) = 0;
};

inline std::uint64_t kv_bytes(const KvFacts& block) {
  return std::uint64_t{block.pages} * 4096;
}

constexpr std::uint64_t kv_state_mask = (1ULL << 56) - 1;

struct KvShared;

struct KvPolicySettings {
  std::uint32_t ghosts_max = 65'536;       // keys remembered by second-sighting and shared-first, about 100 bytes each
  std::uint32_t prefix_blocks_max = 16;    // prefix-depth admits positions below
  std::uint32_t shared_sightings_min = 3;  // shared-first: sightings from which a block counts as shared
};

struct KvAdmissionInfo {
  std::string_view name, summary;
  // `shared` is borrowed and must outlive the policy.
  std::unique_ptr<KvAdmission> (*make)(const KvPolicySettings& settings, KvShared& shared);
};
struct KvEvictionInfo {
  std::string_view name, summary;
  std::unique_ptr<KvEviction> (*make)(const KvPolicySettings& settings, KvShared& shared);
};

// The registries; the first row is the default.
std::span<const KvAdmissionInfo> kv_admissions();
std::span<const KvEvictionInfo> kv_evictions();
const KvAdmissionInfo* find_kv_admission(std::string_view name);
const KvEvictionInfo* find_kv_eviction(std::string_view name);

// Both for a namespace. By name: "chats" (one person's; the default), "shared" (a tier that many use), or a pair from
// the registries as "ADMISSION+EVICTION". Code::invalid with the names that there are.
struct KvChoice {
  const KvAdmissionInfo* admission = nullptr;
  const KvEvictionInfo* eviction = nullptr;
};
KvChoice kv_default_choice();
Result<KvChoice> parse_kv_choice(std::string_view text);  // "": the default

}  // namespace artesian
