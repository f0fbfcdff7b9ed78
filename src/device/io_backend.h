// How a file device gets its operations done: by io_uring or by threads that block. Callers serialise.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "platform/file.h"

namespace artesian {

struct IoOperation {
  const File* file = nullptr;
  bool write = false;
  std::uint64_t offset = 0;
  std::span<std::byte> buffer;
  std::uint64_t id = 0;
};

struct IoDone {
  std::uint64_t id = 0;
  std::uint64_t bytes = 0;
  int error = 0;  // errno, 0 for none
};

class IoEngine {
 public:
  virtual ~IoEngine() = default;
  virtual std::string_view name() const = 0;
  virtual bool start(const IoOperation& operation) = 0;  // false: no room now
  virtual void submit() = 0;                             // what was started is on its way after this
  // With `block`, waits for at least one until `timeout` has passed.
  virtual std::size_t reap(std::span<IoDone> out, bool block, Nanos timeout) = 0;
  virtual bool register_memory(std::span<std::byte> memory) = 0;
};

Result<std::unique_ptr<IoEngine>> make_uring_engine(std::uint32_t depth);
std::unique_ptr<IoEngine> make_thread_engine(std::uint32_t threads);

}  // namespace artesian
