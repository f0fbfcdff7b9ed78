// How a file device gets its operations done: by io_uring or by threads that block. Callers serialise.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "platform/file.h"
#include "platform/placement.h"

namespace artesian {

struct IoOperation {
  std::uint32_t file = 0;  // index in the files that the engine was made for
  bool write = false;
  bool flush = false;           // no memory: what was written before is durable when it is done
  std::uint16_t placement = 0;  // of what is written; 0: no hint
  std::uint64_t offset = 0;
  std::span<const iovec> memory;  // stays valid until the operation is reaped
  std::uint64_t id = 0;
};

struct IoDone {
  std::uint64_t id = 0;
  std::int64_t result = 0;  // bytes moved, or -errno
};

class IoEngine {
 public:
  virtual ~IoEngine() = default;
  virtual std::string_view name() const = 0;
  virtual void start(const IoOperation& operation) = 0;  // not more at once than the depth it was made for
  virtual void submit() = 0;                             // what was started is on its way after this
  // With `block`, waits for at least one until `timeout` has passed.
  virtual std::size_t reap(std::span<IoDone> out, bool block, Nanos timeout) = 0;
  // From any thread: a blocking reap returns, with nothing if there is nothing.
  virtual void wake() = 0;
  virtual bool register_memory(std::span<std::byte> memory) = 0;
  virtual void unregister_memory(std::span<std::byte> memory) = 0;
};

// The files must outlive the engine and stay where they are, and so must what their drives know of placement (one
// each). `rejected` where the system does not allow it. The threads place nothing.
Result<std::unique_ptr<IoEngine>> make_uring_engine(std::uint32_t depth, std::span<const File> files,
                                                    std::span<const DrivePlacement> placements, bool wakeable);
Result<std::unique_ptr<IoEngine>> make_thread_engine(std::uint32_t threads, std::span<const File> files);

}  // namespace artesian
