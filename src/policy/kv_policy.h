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

namespace artesian {

struct KvFacts {               // what is known of a block
  KeyHash key, parent;         // parent none: a root
  std::uint32_t pages = 0;     // of 4 KiB on flash, header included
  std::uint32_t position = 0;  // blocks before it in its prompt
  std::uint32_t tokens = 0;    // 0: unknown
  std::uint64_t session = 0;   // 0: none
  bool has_children = false;   // blocks of the store that name it as their parent
  bool parent_stored = false;  // the parent is in the store; roots count as if theirs were
  Nanos next_use{0};           // hint, 0: none
};

// One per namespace; several may share a KvReuse and a KvBudget.
class KvAdmission {
 public:
  virtual ~KvAdmission() = default;

  // A prompt was looked up: all its blocks, root first, stored or not. Before the puts that follow from it.
  virtual void on_prompt(std::span<const KvFacts> prompt, Nanos now) = 0;

  // Asked once for each put of a block that is not there, before anything is written; true takes its bytes off the
  // budget. A block whose parent is not stored can be reached by no prefix and is refused.
  virtual bool admit(const KvFacts& block, Nanos now) = 0;
};

struct KvSegment {
  std::uint64_t sequence = 0;
  std::uint8_t lifetime = 0;
  std::uint32_t live_pages = 0, pages = 0;
};

// One per store. Eight bytes a block lie in the store's index and are handed back with each question.
class KvEviction {
 public:
  virtual ~KvEviction() = default;

  virtual std::uint64_t on_put(const KvFacts& block, Nanos now) = 0;                       // the block's eight bytes
  virtual std::uint64_t on_hit(const KvFacts& block, std::uint64_t state, Nanos now) = 0;  // the new ones

  // Which segment is reclaimed; an index into `sealed`, which is oldest first and not empty.
  virtual std::size_t victim(std::span<const KvSegment> sealed, Nanos now) = 0;

  // Of the live blocks of the victim, which are carried forward: at most `pages_max` pages, and no block whose parent
  // stood in the same segment without it. `out` gets one entry a block. Pinned ones are not asked about.
  virtual void carry(std::span<const KvFacts> blocks, std::span<const std::uint64_t> states, std::uint64_t pages_max,
                     Nanos now, std::vector<bool>& out) = 0;

  // The lifetime class, 0 to kv_lifetimes - 1: which open segment a block goes to.
  virtual std::uint8_t lifetime(const KvFacts& block, bool carried) = 0;
};

constexpr std::uint8_t kv_lifetimes = 2;

class KvBudget;
class KvReuse;

struct KvPolicySettings {
  std::uint32_t block_tokens = 0;          // of the namespace: shorter blocks are the end of a prompt; 0: unknown
  std::uint32_t ghosts_max = 65'536;       // keys remembered by second-sighting and shared-first, about 100 bytes each
  std::uint32_t prefix_blocks_max = 16;    // prefix-depth admits positions below
  std::uint32_t shared_sightings_min = 3;  // shared-first: sightings from which a block counts as shared
};

struct KvAdmissionInfo {
  std::string_view name, summary;
  // `reuse` and `budget` are borrowed and must outlive the policy.
  std::unique_ptr<KvAdmission> (*make)(const KvPolicySettings& settings, KvReuse& reuse, KvBudget& budget);
};
struct KvEvictionInfo {
  std::string_view name, summary;
  std::unique_ptr<KvEviction> (*make)(const KvPolicySettings& settings, KvReuse& reuse, KvBudget& budget);
};

// The registries; the first row is the default.
std::span<const KvAdmissionInfo> kv_admissions();
std::span<const KvEvictionInfo> kv_evictions();
const KvAdmissionInfo* find_kv_admission(std::string_view name);
const KvEvictionInfo* find_kv_eviction(std::string_view name);

}  // namespace artesian
