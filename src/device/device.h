// A Device moves bytes between memory and one or more files of a drive, real, faulty or simulated. It is the only way
// that store/ and stream/ do I/O, so both run unchanged on a simulated drive in virtual time.
//
// Threads: one owner at a time calls submit/poll/wait (callers serialise); facts() is safe from any thread.
// Ownership: buffers belong to the caller and must stay valid and unmoved until the completion with the request's tag
// is reaped; destroying a Device waits for what is in flight. A Device never reports success for bytes that did not
// arrive: a read that ends early (short read, end of file) completes with an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace artesian {

// In order of service: what is queued in an earlier class is started before anything of a later one.
enum class IoClass : std::uint8_t { demand, staged, write, reclaim };
constexpr std::size_t io_class_count = 4;

// flush moves no bytes: once it completes, what was written to its file by requests that had completed before it was
// submitted is durable.
enum class IoOp : std::uint8_t { read, write, flush };

// Which lifetime the written bytes belong to. 0 is "no hint"; a device without placement ignores it (see DeviceFacts).
struct PlacementHandle {
  std::uint16_t id = 0;
};

// Index of a file of the device, in the order in which they were given when it was opened.
using FileIndex = std::uint32_t;

struct IoRequest {
  IoOp op = IoOp::read;
  IoClass io_class = IoClass::demand;
  PlacementHandle placement{};
  FileIndex file = 0;
  std::uint64_t offset = 0;     // bytes from the start of the file; a multiple of facts().alignment
  std::span<std::byte> buffer;  // address and size multiples of facts().alignment (a write does not change it)
  // Instead of `buffer`: bytes that follow one another in the file and lie apart in memory, at most pieces_limit, each
  // aligned like a buffer. The list, too, is the caller's until the completion.
  std::span<const std::span<std::byte>> pieces;
  std::uint64_t tag = 0;  // the caller's, comes back with the completion

  std::span<const std::span<std::byte>> memory() const { return pieces.empty() ? std::span(&buffer, 1) : pieces; }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& piece : memory()) sum += piece.size();
    return sum;
  }
};
constexpr std::size_t pieces_limit = 512;

struct IoCompletion {
  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;  // on success at least bytes(), or for a read that touches the end of the file, up to it
  Status status;            // device_failed or corrupt (short), with file and offset in the message
};

struct DeviceFacts {
  std::string name;                       // for people: "io_uring, O_DIRECT, /path/model.gguf (+2 files)"
  std::string engine;                     // what carries requests out: "io_uring", "threads", "memory"
  std::uint32_t alignment = 4096;         // bytes; offsets, sizes and addresses must be multiples
  std::uint32_t queue_depth_max = 64;     // requests in flight at the drive at once
  std::uint32_t queue_max = 4096;         // requests waiting or in flight; submit answers `retry` beyond it
  bool direct = false;                    // past the page cache
  std::string placement;                  // of the first file: "8 write streams", or why handles are ignored
  bool trims = false;                     // discard tells the drive what is free, and takes nothing from the files
  std::vector<std::uint64_t> file_bytes;  // size of each file
};

struct DeviceCounters {
  std::uint64_t reads = 0, writes = 0;
  std::uint64_t bytes_read = 0, bytes_written = 0;
  std::uint32_t in_flight = 0, queued = 0;
  Nanos busy{0};  // time with at least one request in flight
};

class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceFacts& facts() const = 0;
  virtual DeviceCounters counters() const = 0;

  // Queue requests and start what the queue depth allows. Never blocks. All or none are taken; `retry` when queue_max
  // would be passed, `invalid` (with the reason) for a request that breaks the alignment or lies outside its file.
  virtual Status submit(std::span<const IoRequest> requests) = 0;

  // Reap finished requests into `out` without waiting; returns how many.
  virtual std::size_t poll(std::span<IoCompletion> out) = 0;

  // Like poll, but waits until at least one is there or `deadline` (on the device's clock) has passed; 0 then.
  // With nothing in flight it returns 0 at once.
  virtual std::size_t wait(std::span<IoCompletion> out, Nanos deadline) = 0;

  // From any thread: a wait under way, or else the next one, returns before its time. Devices that wait in no real time
  // have nothing to do.
  virtual void wake() {}

  // Tell the device that requests will use this memory, so that it may register it. Best effort; returns whether it
  // did. Registered memory is pinned: all of it is resident from now on, and its pages must not be given back
  // (Arena::release) or unmapped before unregister_memory or the end of the device.
  virtual bool register_memory(std::span<std::byte> memory) = 0;

  // The end of a registration, of the same range; nothing may be in flight there.
  virtual void unregister_memory(std::span<std::byte> /*memory*/) {}

  // The range holds nothing of worth any more (hole punch, trim). Best effort. All writes before it must be complete.
  virtual Status discard(FileIndex file, std::uint64_t offset, std::uint64_t bytes) = 0;

  // Returns when all completed writes are durable.
  virtual Status flush() = 0;
};

}  // namespace artesian
