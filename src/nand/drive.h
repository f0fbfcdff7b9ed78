// An SSD in virtual time, from the cell to the link: requests go in, completions come out, and step() moves to the next
// thing that happens. See docs/decisions/0009-nand.md for what is modelled and how.
//
// Not thread safe, no clock, no threads: a run is a function of profile, seed and requests, and digest() is the same
// every time. Buffers of requests belong to the caller and are used until the completion (only by a drive that stores
// data).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "device/device.h"
#include "nand/content.h"
#include "nand/event_queue.h"
#include "nand/flash.h"
#include "nand/ftl.h"
#include "nand/heat.h"
#include "nand/map_cache.h"
#include "nand/profile.h"
#include "nand/read_cache.h"

namespace artesian::nand {

// prefetch: what will be read soon; it is done at once, and moves nothing over the link.
enum class HostOp : std::uint8_t { read, write, flush, prefetch };

struct HostRequest {
  HostOp op = HostOp::read;
  IoClass io_class = IoClass::demand;
  std::uint16_t handle = 0;             // placement; one that the drive has not is 0
  std::uint16_t queue = 0;              // of submission; served in turn within a class
  std::uint8_t partition = 0;           // of the read cache
  float compress = 1;                   // of a write: its data shrink to so much less, on average
  std::uint64_t offset = 0, bytes = 0;  // within capacity_bytes; any alignment
  std::uint64_t tag = 0;
  std::byte* data = nullptr;
};

struct HostCompletion {
  std::uint64_t tag = 0, bytes = 0;
  Time submitted = 0, at = 0;
  HostOp op = HostOp::read;
  IoClass io_class = IoClass::demand;
  bool failed = false;  // a write to a drive that is worn out
};

struct DriveCounters {
  std::uint64_t host_reads = 0, host_writes = 0;
  std::uint64_t host_read_bytes = 0, host_written_bytes = 0, trimmed_bytes = 0;
  std::uint64_t merge_bytes = 0;  // rewritten around host writes smaller than a unit of the map
  std::uint64_t saved_bytes = 0;  // of both, by compression
  std::array<std::uint64_t, stream_count> programmed_bytes{};     // by cause, as the translation layer appends them
  std::array<std::uint64_t, purpose_count> flash_ops{};           // page reads, programs and erases of one die
  std::uint64_t media_written_bytes = 0, media_erased_bytes = 0;  // as the dies count them
  std::uint64_t retries = 0, suspends = 0, buffer_hits = 0, unmapped_reads = 0, map_misses = 0;
  std::uint64_t cache_hits = 0;                      // reads of units that were in DRAM or on their way there
  std::uint64_t kept_units = 0, promoted_units = 0;  // tiering by heat: that stayed in one-bit mode, that came back
  std::uint64_t moved_bytes = 0, link_bytes = 0;
  Time elapsed = 0;

  double write_amplification() const;
  // The ledger: what the translation layer appended is what the dies programmed, apart from `buffered` that is under
  // way.
  std::uint64_t appended_bytes() const;
};

// NVMe FDP statistics log: host bytes with metadata written, media bytes written and erased.
struct FdpStatistics {
  std::uint64_t host_written = 0, media_written = 0, media_erased = 0;
};

struct EnergyReport {
  double read_j = 0, program_j = 0, erase_j = 0, channel_j = 0, link_j = 0, idle_j = 0;
  double total_j() const { return read_j + program_j + erase_j + channel_j + link_j + idle_j; }
};

struct DriveOptions {
  bool store_data = false;  // keeps the bytes, and what is needed to survive a loss of power
  std::uint64_t seed = 1;
  std::vector<std::uint32_t> quota;  // superblocks for each handle's data; see FtlSettings
};

class Drive final : private FlashClient {
 public:
  explicit Drive(Profile profile, DriveOptions options = {});
  Drive(const Drive&) = delete;
  Drive& operator=(const Drive&) = delete;

  const Profile& profile() const { return profile_; }
  const Layout& layout() const { return layout_; }
  const Ftl& ftl() const { return ftl_; }
  Time now() const { return now_; }

  void submit(const HostRequest& request) { submit(std::span(&request, 1)); }
  void submit(std::span<const HostRequest> requests);  // at once: classes decide between them
  // Takes effect at once and costs no time.
  void trim(std::uint64_t offset, std::uint64_t bytes);

  bool idle() const { return events_.empty(); }
  Time next_event() const { return events_.top().at; }
  void step();
  void run_until(Time time);  // and not beyond, even if nothing happens
  void run_until_idle();
  void drain();  // and all that is buffered is on flash, padded where it has to be

  std::uint32_t in_flight() const { return in_flight_; }
  std::uint32_t waiting() const;
  // In order of time; whoever reads them clears them.
  std::vector<HostCompletion>& completions() { return completions_; }

  // Preparation, in no time and not counted: units of the map [first, first + count) in order, or `count` at random.
  void fill(std::uint64_t first, std::uint64_t count, std::uint32_t handle = 0);
  void fill_native(
      std::uint64_t count);  // the first units, on flash in native mode whatever the drive does with new data
  void overwrite_at_random(std::uint64_t count);
  void preload(std::uint64_t offset, std::span<const std::byte> bytes, double compress = 1);
  void fill_compress(double ratio) { fill_compress_ = ratio; }  // what these write from now on shrinks to so much less
  void age(double months) { age_months_ = months; }             // since all that is stored was written
  void wear(double share_of_life) { wear_ = share_of_life; }    // of every block, besides what is erased from now on

  // Power is gone now: requests in flight never complete. Needs store_data. Returns how long the drive takes to come
  // back.
  Time cut_power();

  DriveCounters counters() const;
  FdpStatistics fdp() const;
  EnergyReport energy() const;
  void reset_counters();
  std::uint64_t memory_bytes() const { return ftl_.memory_bytes(); }                  // of tables, without stored bytes
  std::uint64_t kept_bytes() const { return content_ ? content_->kept_bytes() : 0; }  // stored as they are
  bool worn_out() const { return ftl_.worn_out(); }
  double years_of_life(double bytes_per_day) const;  // at the write amplification so far
  std::uint64_t digest() const { return digest_; }
  const Flash& flash() const { return flash_; }
  std::uint64_t events() const { return event_count_; }

 private:
  struct Request {
    HostRequest host;
    Time submitted = 0, finish = 0;
    std::uint32_t next = none;
    std::uint32_t pending = 0;  // flash reads
    std::uint32_t unit = 0;     // of a write: the next to be buffered
    bool failed = false;
  };
  struct Fifo {
    std::uint32_t head = none, tail = none;
  };
  struct Job {  // moving what is valid out of a superblock
    std::uint32_t victim = none;
    std::uint32_t next = 0, end = 0;  // pua
    std::uint32_t reading = 0;
    Stream stream = Stream::collection;
    std::uint32_t kept = 0;  // grains that stay in the fast medium
  };
  struct Erasing {
    std::uint32_t superblock = none;
    std::uint32_t left = 0;  // dies; 0: not begun
  };
  struct Stalled {
    std::uint32_t pua;
    std::uint32_t job;
  };

  // host side, drive.cpp
  std::uint32_t new_request(const HostRequest& host);
  void dispatch();
  std::uint32_t next_waiting();
  void start(std::uint32_t index);
  void issue(std::uint32_t index);
  void start_read(std::uint32_t index);
  void prefetch(const HostRequest& host);
  bool serve_from_memory(std::uint32_t index, std::uint32_t unit, std::uint32_t pua);
  std::uint32_t page_run(const HostRequest& host, std::uint32_t unit, std::uint32_t end,
                         std::uint32_t& flash_bytes) const;
  void launch_reads(std::uint32_t index, std::uint32_t first, std::uint32_t count);
  std::uint32_t clipped(const HostRequest& host, std::uint32_t first, std::uint32_t count) const;
  void copy_out(const HostRequest& host, std::uint32_t lpn, std::uint32_t pua) const;
  void deliver(std::uint32_t index, std::uint32_t bytes);
  void settle(std::uint32_t index);
  void complete(std::uint32_t index);
  void pump_writes();
  bool buffer_write(std::uint32_t index);
  void store(const HostRequest& host, std::uint32_t lpn, std::uint32_t old, std::uint32_t pua);
  void finish_flushes();
  std::uint32_t handle_of(const HostRequest& host) const;
  std::uint32_t compressed_length(double ratio);

  // inside, drive_collect.cpp
  void read_page(std::uint32_t pua, std::uint32_t bytes, Purpose purpose, std::size_t level, std::uint32_t owner,
                 std::uint32_t place, std::uint32_t count);
  void program(const Appended& filled, std::uint32_t host_grains, std::size_t level);
  void pad_begun(std::uint64_t order, std::size_t frontiers);
  bool host_blocked() const;
  void pump_collection();
  bool begin(std::size_t job);
  void advance(std::size_t job);
  void move_page(std::uint32_t job, std::uint32_t first);
  bool move_unit(std::uint32_t job, std::uint32_t pua);
  std::uint32_t frontier_of(std::uint32_t job, std::uint32_t pua);
  std::optional<Appended> put(std::uint32_t frontier, std::uint32_t lpn, Stream stream, std::uint32_t grains,
                              std::size_t level);
  std::uint32_t take_buffered(std::uint32_t frontier, std::uint32_t program);
  void promote(std::uint32_t lpn);
  void begin_erases();
  void erase(Erasing& erasing);
  void touch_map(std::uint32_t lpn);
  void look_up_map(std::uint32_t lpn, bool changes, IoClass io_class);
  void keep_near(const FlashOp& op, std::uint32_t partition);
  void announced(const FlashOp& op);
  void evict_map_page(const MapCache::Touched& touched);
  std::size_t background_level() const;
  void fill_map(std::uint64_t first, std::uint64_t count);
  void moved(const FlashOp& op, Time now) override;
  void finished(const FlashOp& op, Time now) override;

  Profile profile_;
  DriveOptions options_;
  Layout layout_;
  EventQueue events_;
  Flash flash_;
  Ftl ftl_;
  MapCache map_cache_;
  ReadCache read_cache_;
  Heat heat_;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> coming_;  // units announced: requests that want them
  std::optional<Content> content_;
  std::vector<std::byte> merged_;  // a unit under way
  Random random_, lengths_;

  Time now_ = 0, started_ = 0;
  Time submit_ns_, complete_ns_, command_ns_, read_ns_, write_ns_, ecc_ns_, decompress_ns_;
  double link_ns_per_byte_, parity_;
  Time controller_free_ = 0, link_in_free_ = 0, link_out_free_ = 0;
  std::uint32_t buffer_grains_;

  std::vector<Request> requests_;
  std::vector<std::uint32_t> free_requests_;
  std::array<std::vector<Fifo>, io_class_count> waiting_;
  std::array<std::uint32_t, io_class_count> waiting_count_{}, turn_{};
  std::uint32_t in_flight_ = 0;
  std::deque<std::uint32_t> writes_;  // whose data have arrived and want places in the buffer
  std::uint32_t buffered_ = 0;        // grains
  struct Flushing {
    std::uint32_t request;
    std::uint64_t order;  // done when all before it is on flash
  };
  std::vector<Flushing> flushes_;
  std::vector<HostCompletion> completions_;

  static constexpr std::size_t job_count = 3;  // collection, fold, levelling
  std::array<Job, job_count> jobs_;
  std::vector<Erasing> erasing_;
  std::vector<Stalled> stalled_;
  std::uint64_t levelled_at_ = 0;  // erases
  bool pumping_ = false;

  double age_months_ = 0, wear_ = 0, fill_compress_ = 1;
  DriveCounters counters_;
  std::uint64_t digest_ = 14695981039346656037ULL;
  std::uint64_t event_count_ = 0;
};

}  // namespace artesian::nand
