// The engine behind Store: a state machine over a Device. Batches become operations, operations wait in the queue of
// their class, and whoever polls or waits moves them on: takes what the device has completed, verifies it, answers, and
// starts what there is room for. Nothing here starts a thread or reads a clock other than the one handed in.
//
// Threads: every public call from any thread. One mutex guards all state; it is not held while the device is waited
// for, while payloads are summed up or copied, or while callbacks run. Ownership: device and clock are the caller's and
// live longer; nobody else uses the device meanwhile.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "artesian/store.h"
#include "base/gather.h"
#include "device/device.h"
#include "store/block_index.h"
#include "store/block_policies.h"
#include "store/buffer_pool.h"
#include "store/codec_pool.h"
#include "store/latencies.h"
#include "store/layout.h"
#include "store/memory_tier.h"
#include "store/recovery.h"
#include "store/segments.h"

namespace artesian {

struct CompactReport {
  std::uint64_t segments = 0, of = 0;  // looked at so far; of those that had few live blocks
  std::uint64_t emptied = 0;
  std::uint64_t bytes_carried = 0;
};

struct EngineSettings {
  std::uint64_t blocks_max = 0;                // of the index; 0: one for each 16 KiB of the paths
  std::uint32_t write_depth_max = 16;          // writes at the device at once,
  std::uint32_t write_depth_beside_reads = 2;  // and while somebody reads, or did a moment ago
  std::uint32_t reclaim_depth_max = 8;         // reads of reclaim at once
  std::uint32_t put_queue_max = 1024;          // puts that wait; more are shed
  std::uint64_t write_bytes_per_day = 0;       // the store's budget from now on; 0: the one that it has
  std::uint64_t unix_ms = 0;                   // time of the opening; 0: not known, and bytes a day neither
  std::uint64_t part_bytes_min = 256 * KiB;    // a read of two such parts or more, alone, is split: see queue_split
  std::uint64_t buffer_bytes_max = 256 * MiB;
  double pinned_share_max = 0.25;  // of a store's bytes
  std::uint64_t memory_bytes = 0;  // of the memory tier, bookkeeping included
  bool memory_on_put = true;       // what is stored goes there as well
  bool memory_on_get = true;       // what is read from flash, too
  std::optional<StoreKeys> keys;   // of an encrypted store
  std::function<void(std::string_view)> report;
};

class Engine final : public Store {
 public:
  // The device's files are the paths of a store that format_store() made. `owned` goes after the engine.
  static Result<std::unique_ptr<Engine>> open(Device& device, const Clock& clock, EngineSettings settings,
                                              std::shared_ptr<void> owned = nullptr);
  ~Engine() override;

  Result<NamespaceId> open_namespace(const NamespaceFields& fields) override;
  std::vector<NamespaceFacts> namespaces() override;
  Status erase_namespace(NamespaceId ns) override;
  void submit(NamespaceId ns, std::span<Put> items, const Batch& batch, std::function<void()> done) override;
  void submit(NamespaceId ns, std::span<Get> items, const Batch& batch, std::function<void()> done) override;
  void stage(NamespaceId ns, std::span<Probe> items, const Batch& batch, std::function<void()> done) override;
  void poll() override;
  void wait(Nanos until) override;
  Nanos now() const override { return clock_.now(); }
  void put(NamespaceId ns, std::span<Put> items, const Batch& batch = {}) override;
  void get(NamespaceId ns, std::span<Get> items, const Batch& batch = {}) override;
  void exists(NamespaceId ns, std::span<Probe> items) override;
  void erase(NamespaceId ns, std::span<Probe> items) override;
  std::size_t longest_prefix(NamespaceId ns, std::span<const std::span<const std::byte>> keys) override;
  void expect(NamespaceId ns, std::span<const std::span<const std::byte>> keys, Outlook outlook) override;
  void pin(NamespaceId ns, std::span<Probe> items) override;
  void unpin(NamespaceId ns, std::span<const std::span<const std::byte>> keys) override;
  Status pin_named(NamespaceId ns, std::string_view name, std::span<Probe> items) override;
  Status unpin_named(NamespaceId ns, std::string_view name) override;
  std::vector<PinFacts> named_pins() override;
  Status flush() override;
  Status list(NamespaceId ns, const std::function<bool(const BlockFacts&)>& each) override;
  Result<VerifyReport> verify(const std::function<void(const VerifyReport&)>& progress) override;
  StoreStats stats() const override;

  // For an owner alone. Sealed segments of which less than that part is live are emptied, all that is live carried
  // forward, and the blocks of erased namespaces are let go.
  Result<CompactReport> compact(double below, const std::function<void(const CompactReport&)>& progress);
  // verify, and what is bad stays away for good; tables and indexes that were damaged are written anew.
  Result<VerifyReport> repair(const std::function<void(const VerifyReport&)>& progress);
  // A namespace of another store's, as that one keeps it. All that is put there is written, as far as the budget
  // allows.
  Result<NamespaceId> adopt_namespace(const NamespaceDigest& digest, const std::string& text);
  NamespaceDigest digest_of(NamespaceId ns) const;
  const Id& id() const { return store_; }

 private:
  using Lock = std::unique_lock<std::mutex>;

  // A batch that is not answered yet. Belongs to its operations.
  struct Pending {
    std::size_t left = 0;
    std::function<void()> done;
  };

  // One request to the device and what comes of it.
  struct Op {
    virtual ~Op() = default;
    // Under the lock. Fills in the request; false: not now.
    virtual bool prepare(Engine&) { return true; }
    // Without the lock, after the device is done with it: looks at the bytes.
    virtual void check(Engine&) {}
    // Under the lock. False: again, from the front of its queue.
    virtual bool finish(Engine& engine) = 0;
    // Under the lock, instead of all that, before it was begun: too late, or there will never be room.
    virtual void give_up(Engine&, Outcome) {}
    void aim(Engine& engine, std::uint32_t segment, std::uint32_t page);  // the request at that place

    IoRequest request;
    std::vector<std::span<std::byte>> pieces;
    BufferPool::Buffer buffer;
    Status status;
    Nanos deadline = Nanos::max();
    Nanos begun{0};            // at the device
    std::uint64_t ticket = 0;  // of writes: see flush
  };
  struct GetOp;
  struct SplitGet;
  struct PartOp;
  struct PutOp;
  struct HeaderOp;
  struct SealOp;
  struct ErasuresOp;
  struct FlushOp;
  struct PageOp;
  struct WipeOp;
  struct ScanOp;
  struct CarryRead;
  struct CarryWrite;
  struct Namespace {
    NamespaceSlot slot;
    bool used = false;
    CodecId codec = CodecId::none;  // of what is put
    ElementType type = ElementType::unknown;
    std::uint32_t block_tokens = 0;
  };
  struct Pinned {
    std::uint32_t count = 0, pages = 0;
    bool named = false;  // it is in named_
  };
  using Pins = std::unordered_map<KeyHash, Pinned, KeyHashHash>;
  struct Reclaim {
    std::uint32_t segment = 0;
    std::deque<IndexedBlock> carry;  // not yet begun
    std::uint32_t carrying = 0;
    bool must_flush = false;  // something was copied, or must be written, before the segment goes
    enum class Step : std::uint8_t { carry, erasures, flush, wipe } step = Step::carry;
    bool waiting = false;  // for a flush or a wipe under way
  };
  using Queue = std::deque<std::unique_ptr<Op>>;

  Engine(Device& device, const Clock& clock, EngineSettings settings, OpenedStore opened, BlockIndex index);

  // engine.cpp
  Status recover();
  void write_superblocks();
  std::uint64_t written_ever() const;
  Status recover_path(std::size_t path);
  void take_found(std::size_t path, FoundSegment& found);
  void take_entry(std::uint32_t segment, const IndexEntry& entry);
  void apply_erasures(const std::vector<Erasure>& erasures);
  std::uint64_t generation_on_flash(const KeyHash& key, const BlockLocation& location);
  KeyHash hash(const Namespace& ns, std::span<const std::byte> key) const;
  struct TablePage {
    std::uint64_t offset = 0;
    SealScope scope;
    std::function<bool(std::span<std::byte>, const Seal*)> encode;
  };
  Status write_table(Lock& lock, std::span<const TablePage> pages, std::string_view what);
  Status write_slot(Lock& lock, NamespaceId id);
  Result<NamespaceId> use_namespace(const NamespaceDigest& digest, std::string text, const Namespace& way,
                                    const KvChoice& policy);
  Status begin_epoch(NamespaceId id);
  SealScope scope_of(NamespaceId id) const;
  void forget(const KeyHash& key, const BlockLocation& location);
  bool has(const KeyHash& key) const;
  std::optional<BlockEntry> touch(const Namespace& ns, const KeyHash& key);
  void count_frame(std::uint64_t bytes);
  void erase_one(const KeyHash& key, Probe& item);

  // engine_io.cpp
  void queue(IoClass io_class, std::unique_ptr<Op> op, bool front = false);
  void expire(Nanos now);
  void start_queued();
  bool start_one(IoClass io_class);
  bool room_for(IoClass io_class) const;
  void complete(std::unique_ptr<Op> op);
  void answer(const std::shared_ptr<Pending>& batch);
  void drive(Lock& lock, Nanos until);
  void finish_round(Lock& lock, std::vector<std::unique_ptr<Op>>& ended);
  std::vector<std::unique_ptr<Op>> take_ended(std::span<IoCompletion> completions);
  void give_up_stuck();
  template <typename Done>
  void drive_until(Lock& lock, Done done) {
    while (!done()) drive(lock, Nanos::max());
  }
  template <typename Item>
  void submit_and_wait(NamespaceId ns, std::span<Item> items, const Batch& batch) {
    bool answered = false;
    submit(ns, items, batch, [&] {
      const std::lock_guard lock(mutex_);
      answered = true;
    });
    Lock lock(mutex_);
    drive_until(lock, [&] { return answered; });
  }
  bool idle() const;

  // engine_get.cpp
  Outcome begin_get(const Namespace& ns, Get& item, const Batch& batch, const std::shared_ptr<Pending>& pending,
                    std::shared_ptr<const MemoryBlock>& in_memory);
  Outcome begin_stage(const Namespace& ns, Probe& item, const Batch& batch, const std::shared_ptr<Pending>& pending);
  bool queue_split(IoClass io_class, std::unique_ptr<GetOp>& op);
  void queue_get(const Namespace& ns, const BlockLocation& location, const Batch& batch, std::unique_ptr<GetOp> op);

  // engine_put.cpp
  std::optional<Place> place(std::uint32_t pages, std::uint8_t lifetime, const Segments::Path* only);
  void written(const Place& place, bool well);
  void fail_path(Segments::Path& path, std::string_view why);
  void seal_closed();
  void note_erasure(const Erasure& erasure);
  void write_erasures();
  void flush_paths(std::function<void(bool)> done);
  bool writes_before(std::uint64_t ticket) const { return !tickets_.empty() && *tickets_.begin() < ticket; }

  // engine_pins.cpp
  std::uint64_t pinned_pages_max() const;
  Outcome pin_one(const KeyHash& key, bool named);
  void drop_if_free(Pins::iterator pinned);
  void unpin_one(const KeyHash& key);
  void unname(std::span<const KeyHash> keys);
  std::set<std::uint32_t> free_slots(const std::function<bool(const PinSlot&)>& which);
  void take_pins();
  bool holds(const PinSlot& slot, NamespaceId id, std::string_view name) const;
  std::set<std::uint32_t> drop_pins(NamespaceId id);
  Status write_pins(Lock& lock, const std::set<std::uint32_t>& slots);

  // engine_care.cpp
  bool is_current(const RecordHeader& record) const;
  void forget_erased();

  // engine_scan.cpp
  Result<RecordHeader> record_at(std::span<const std::byte> bytes, const IndexedBlock& block,
                                 std::uint64_t sequence) const;
  Result<VerifyReport> check_all(const std::function<void(const VerifyReport&)>& progress, bool for_good);
  void scan(bool whole, const std::function<void(ScanOp&)>& seen, const std::function<bool(Lock&)>& go_on);

  // engine_reclaim.cpp
  bool carrying(std::size_t path) const;
  void discard_freed();
  void step_reclaim();
  enum class Keep : std::uint8_t { what_is_worth_it, all };
  void begin_reclaim(std::size_t path, std::uint32_t segment, Keep keep = Keep::what_is_worth_it);
  void choose_carried(std::size_t path, std::span<const IndexedBlock> blocks, std::uint64_t pages_max);
  void step(std::size_t path);
  void finish_reclaims(Lock& lock);

  std::shared_ptr<void> owned_;  // first, so that it goes last
  Device& device_;
  const Clock& clock_;
  EngineSettings settings_;
  Id store_{};
  HashSecret secret_{};
  std::shared_ptr<Sealer> sealer_;  // null: the store is not encrypted
  std::uint64_t block_bytes_max_ = 0;
  Nanos opened_{0};
  CodecPool codecs_;

  mutable std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  bool device_busy_ = false;    // a thread waits at the device, which nobody else may use then
  std::uint32_t checking_ = 0;  // operations that threads look at without the lock
  BufferPool buffers_;
  BlockIndex index_;
  MemoryTier memory_;
  BlockPolicies policies_;
  Segments segments_;
  std::vector<Namespace> namespaces_;
  std::set<NamespaceId> old_slots_;               // of which a copy of before their erasure is on flash
  std::uint64_t generation_ = 0;                  // the last one given out; sequences come from it, too
  std::vector<std::optional<Reclaim>> reclaims_;  // one a path
  bool wiping_ = false;                           // one at a time
  std::vector<std::uint32_t> freed_;              // segments durably wiped, of which the device is to be told
  std::size_t next_path_ = 0;

  std::array<Queue, io_class_count> queues_;
  std::vector<std::unique_ptr<Op>> in_flight_;  // by tag
  std::vector<std::uint32_t> free_tags_;
  std::array<std::uint32_t, io_class_count> at_device_{};
  Nanos earliest_deadline_ = Nanos::max();
  Nanos last_read_ = -std::chrono::hours(1);      // when one was last submitted
  std::vector<std::function<void()>> callbacks_;  // of batches that are answered

  std::unordered_set<KeyHash, KeyHashHash> puts_;  // keys of puts under way
  Pins pins_;                                      // named ones with them
  std::vector<PinSlot> named_;                     // the table on flash
  std::uint64_t pinned_pages_ = 0;
  std::vector<Erasure> erasures_;  // not yet on flash
  std::uint32_t erasures_under_way_ = 0;
  bool erasures_failed_ = false;
  std::set<std::uint64_t> tickets_;  // of writes that are queued or under way
  std::uint64_t last_ticket_ = 0;
  Latencies reads_, writes_;
  StoreStats stats_;
};

}  // namespace artesian
