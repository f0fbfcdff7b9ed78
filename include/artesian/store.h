// The KV block store: blocks by key, in memory and on flash, in batches with an answer for each block. A block comes
// back whole, verified and under its full key, or not at all; one bad block never fails its neighbours.
//
// Threads: every call is safe from any thread. The store has no thread of its own: I/O moves on inside poll(), wait()
// and the calls that block. Ownership: what a batch points to (keys, buffers, the items themselves) is the caller's and
// must stay where it is until the batch is answered; a read lands in the caller's buffer, so that a buffer that is a
// multiple of 4 KiB in address and size is not copied. Units: bytes; times on the store's clock. Errors: calls that can
// fail as a whole return a Result; what can fail for a block is its Outcome.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "artesian/namespace.h"
#include "base/clock.h"
#include "base/result.h"

namespace artesian {

enum class Outcome : std::uint8_t {
  none,      // not answered yet
  hit,       // get: the bytes are in the buffer; exists, erase, pin: it is (was) there
  stored,    // put: written, and visible from now on; durable after flush
  present,   // put: it is there already, nothing was written
  miss,      // not there
  corrupt,   // it was there and is not what it must be: forgotten, the buffer is zeroed
  late,      // the deadline passed before it was begun
  rejected,  // put: shed, refused by a policy, or the same key is being put; pin: too much is pinned
  failed,    // the device reported an error; a buffer is zeroed
  invalid,   // key, size or hints against the limits; for get, a buffer that is too small
};
const char* outcome_name(Outcome outcome);

// Hints; 0 is "not known". They are kept with the block and may be looked at by policies.
struct BlockHints {
  std::uint64_t session = 0;
  std::uint32_t position = 0;     // which block of its sequence it is
  std::uint32_t tokens = 0;       // in it
  std::uint64_t deadline_ms = 0;  // Unix time after which it is of no use
  std::uint64_t next_use_ms = 0;  // Unix time at which it will be wanted
  std::uint8_t lifetime = 0;      // blocks of one class are expected to die together
};

// What is known of a stored block's future; policies and the memory tier act on it at once. Not on flash.
enum class Outlook : std::uint8_t {
  unknown,
  awaited,  // wanted again before long: not evicted for want of hits
  ended,    // not wanted any more: of those that are not pinned the first to go
};

struct Put {
  std::span<const std::byte> key;         // 1 to 255 bytes
  std::span<const std::byte> parent;      // key of the block before it, in the same namespace; empty for the first
  std::span<const std::byte> attributes;  // up to 1 KiB of the caller's
  std::span<const std::byte> data;        // the block, or
  std::span<const std::span<const std::byte>> pieces;  // the block in pieces that follow one another
  std::span<const std::uint32_t> extents;  // sizes of the parts that can be read alone, in order; empty: one
  BlockHints hints;

  Outcome outcome = Outcome::none;
};

struct Get {
  std::span<const std::byte> key;
  std::span<std::byte> buffer;                   // room for the block, or
  std::span<const std::span<std::byte>> pieces;  // room in pieces that are filled one after the other

  Outcome outcome = Outcome::none;
  std::uint64_t bytes = 0;  // of the block, on hit
};

struct Probe {
  std::span<const std::byte> key;

  Outcome outcome = Outcome::none;
};

// In order of service. Stores are shed before a read waits.
enum class Urgency : std::uint8_t { demand, staged };

struct Batch {
  Nanos deadline = Nanos::max();
  Urgency urgency = Urgency::demand;
};

// What a record says about itself.
struct BlockFacts {
  std::vector<std::byte> key, parent, attributes;
  BlockHints hints;
  std::uint64_t bytes = 0, flash_bytes = 0;
  std::uint64_t generation = 0;        // rises with each put
  std::vector<std::uint32_t> extents;  // sizes of the parts that can be read alone
};

struct StoreStats {
  std::uint64_t blocks = 0, capacity_bytes = 0, live_bytes = 0;
  std::uint64_t segments = 0, segments_free = 0;
  std::uint64_t hits = 0, memory_hits = 0, misses = 0, corrupt = 0, late = 0, failed = 0;
  std::uint64_t staged = 0;  // blocks brought into memory ahead of time
  std::uint64_t stored = 0, present = 0, shed = 0, put_failed = 0;
  std::uint64_t refused = 0;              // puts, by policy or budget
  std::uint64_t write_bytes_per_day = 0;  // the budget; 0: no limit
  std::uint64_t written_ever = 0;         // bytes since it was made, but for those before a crash
  Nanos age{0};                           // since then; 0: not known
  std::uint64_t bytes_read = 0, bytes_put = 0, bytes_carried = 0, bytes_written = 0;  // written: all, headers and all
  std::uint64_t bytes_saved = 0;                                                      // by codecs, of bytes_put
  std::uint64_t evicted = 0, carried = 0, erased = 0, segments_reclaimed = 0;
  std::uint64_t pinned = 0;
  std::uint64_t index_bytes = 0, memory_bytes = 0, buffer_bytes = 0;  // of memory
  std::uint64_t records_skipped = 0;                                  // broken ones, when it was opened
  std::uint32_t paths = 0, paths_failed = 0;
  // Of the device in this opening, to a third or so: half of the requests, and 99 of 100, were answered within. 0:
  // none.
  std::uint64_t read_us_p50 = 0, read_us_p99 = 0, write_us_p50 = 0, write_us_p99 = 0;
};

struct VerifyReport {
  std::uint64_t blocks = 0, bytes = 0, bad = 0;
};

using NamespaceId = std::uint32_t;

// Blocks that somebody has pinned under a name.
struct PinFacts {
  NamespaceId ns = 0;
  std::string name;
  std::uint64_t blocks = 0, bytes = 0;  // on flash
};

struct NamespaceFacts {
  NamespaceId id = 0;
  std::string text;  // its fields as JSON, without the salt
};

class Store {
 public:
  virtual ~Store() = default;  // waits for what is in flight

  // Opens or makes a namespace. invalid without a fingerprint of the weights, rejected when there are too many (128).
  virtual Result<NamespaceId> open_namespace(const NamespaceFields& fields) = 0;
  virtual std::vector<NamespaceFacts> namespaces() = 0;  // all that there are, opened by this
  // All its blocks are unreadable when this returns well, also after a crash.
  virtual Status erase_namespace(NamespaceId ns) = 0;

  // A batch: never blocks; `done` is called once, by whichever thread answers the last item.
  virtual void submit(NamespaceId ns, std::span<Put> items, const Batch& batch, std::function<void()> done) = 0;
  virtual void submit(NamespaceId ns, std::span<Get> items, const Batch& batch, std::function<void()> done) = 0;
  // Brings blocks into the memory tier by the batch's deadline, so that a get finds them there. hit: it is there now;
  // rejected: the tier is not made for a block of that size.
  virtual void stage(NamespaceId ns, std::span<Probe> items, const Batch& batch, std::function<void()> done) = 0;
  // Moves I/O on without waiting, or until something was answered or `until` has passed.
  virtual void poll() = 0;
  virtual void wait(Nanos until) = 0;
  virtual Nanos now() const = 0;  // on the clock of deadlines

  // The same, waited for.
  virtual void put(NamespaceId ns, std::span<Put> items, const Batch& batch = {}) = 0;
  virtual void get(NamespaceId ns, std::span<Get> items, const Batch& batch = {}) = 0;

  // From memory alone. exists may trust a keyed hash of 128 bits; get never does.
  virtual void exists(NamespaceId ns, std::span<Probe> items) = 0;
  virtual void erase(NamespaceId ns, std::span<Probe> items) = 0;
  // How many of the keys, from the first on, are there. Policies learn from it what is wanted and how often: give it
  // all the keys of a prompt, once.
  virtual std::size_t longest_prefix(NamespaceId ns, std::span<const std::span<const std::byte>> keys) = 0;

  // Says what is to come of blocks; those that are not there are passed over. Pins count more than this.
  virtual void expect(NamespaceId, std::span<const std::span<const std::byte>>, Outlook) {}

  // A pinned block is not evicted. Pins count; see Pins below.
  virtual void pin(NamespaceId ns, std::span<Probe> items) = 0;
  virtual void unpin(NamespaceId ns, std::span<const std::span<const std::byte>> keys) = 0;

  // Named pins are on flash, and stay until they are removed or their namespace is erased. Blocks are added to a pin
  // that is there; of those whose outcome is hit the pin, and the block itself, is durable when this returns well. They
  // count against the same limit as others.
  virtual Status pin_named(NamespaceId, std::string_view, std::span<Probe>) {
    return fail(Code::rejected, "named pins are for the store's owner to make");
  }
  // not_found if there is none of that name.
  virtual Status unpin_named(NamespaceId, std::string_view) {
    return fail(Code::rejected, "named pins are for the store's owner to remove");
  }
  virtual std::vector<PinFacts> named_pins() { return {}; }

  // What was stored or erased before is durable when this returns well.
  virtual Status flush() = 0;

  // Reads the record of every block of the namespace, header only; `each` may return false to end it.
  virtual Status list(NamespaceId ns, const std::function<bool(const BlockFacts&)>& each) = 0;
  // Reads every byte of every block. Bad ones are forgotten. `progress` after each block.
  virtual Result<VerifyReport> verify(const std::function<void(const VerifyReport&)>& progress) = 0;

  virtual StoreStats stats() const = 0;
};

}  // namespace artesian
