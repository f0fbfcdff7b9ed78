#include "gateway/block_reader.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "base/units.h"
#include "platform/arena.h"

namespace artesian {
namespace {

// A thread has so much read while it writes as much: the drive is never without work.
constexpr std::uint64_t batch_bytes = 8 * MiB;
constexpr std::uint64_t page = 4 * KiB;

class Reading {
 public:
  Reading(Store& store, NamespaceId ns, const SlotFile& file, const File& out, std::span<BlockRead> blocks)
      : store_(store), ns_(ns), file_(file), out_(out), blocks_(blocks), token_bytes_(file.layout.token_bytes()) {
    std::size_t widest = 1;
    for (const BlockRead& block : blocks) widest = std::max(widest, block.step.count);
    room_ = align_up(widest * token_bytes_, page);
    batch_ = std::clamp<std::size_t>(batch_bytes / room_, 1, std::max<std::size_t>(1, blocks.size()));
  }

  // Of the helper: false once all is done without it.
  bool join() {
    const std::scoped_lock lock(mutex_);
    if (closed_) return false;
    ++helpers_;
    return true;
  }
  void leave() {
    const std::scoped_lock lock(mutex_);
    --helpers_;
    left_.notify_all();
  }
  // No helper works on it any more, and none will.
  Status close() {
    std::unique_lock lock(mutex_);
    closed_ = true;
    left_.wait(lock, [this] { return helpers_ == 0; });
    return std::move(status_);
  }

  void work() {
    std::array<Flight, 2> flights;
    auto memory = Arena::reserve(flights.size() * batch_ * room_, Arena::Pages::large);
    if (!memory) return end(fail(std::move(memory.error())));
    for (std::size_t i = 0; i < flights.size(); ++i) {
      flights[i].memory = memory->span().subspan(i * batch_ * room_, batch_ * room_);
      begin(flights[i]);
    }
    for (std::size_t i = 0; !flights[i].own.empty(); i = 1 - i) {
      wait_until(store_, flights[i].done);
      if (auto written = write(flights[i]); !written) end(std::move(written));
      begin(flights[i]);
    }
  }

 private:
  // The next ones; none once something has failed.
  std::span<BlockRead> take() {
    const std::scoped_lock lock(mutex_);
    if (!status_) return {};
    const auto own = blocks_.subspan(next_, std::min(batch_, blocks_.size() - next_));
    next_ += own.size();
    return own;
  }
  void end(Status why) {
    const std::scoped_lock lock(mutex_);
    if (status_) status_ = std::move(why);
  }

  // Blocks on their way from the drive, or none.
  struct Flight {
    std::span<std::byte> memory;
    std::span<BlockRead> own;
    std::vector<Get> gets;
    std::atomic<bool> done = false;
  };

  void begin(Flight& flight) {
    flight.own = take();
    flight.gets.clear();
    flight.done = flight.own.empty();
    for (std::size_t i = 0; i < flight.own.size(); ++i) {
      const auto room = flight.memory.subspan(i * room_, room_);
      flight.gets.push_back({.key = flight.own[i].step.key, .buffer = room, .pieces = {}});
    }
    if (!flight.own.empty()) store_.submit(ns_, flight.gets, {}, [&flight] { flight.done = true; });
  }

  Status write(Flight& flight) {
    for (std::size_t i = 0; i < flight.own.size(); ++i) {
      BlockRead& block = flight.own[i];
      const Get& get = flight.gets[i];
      const auto& step = block.step;
      block.lost = get.outcome == Outcome::miss || get.outcome == Outcome::corrupt;
      if (get.outcome != Outcome::hit || get.bytes != step.count * token_bytes_) continue;
      for (const SlotPart& part : block_parts(file_, step.first, step.used, step.count)) {
        if (auto written = out_.write(part.to, get.buffer.subspan(part.from, part.bytes)); !written) return written;
      }
      block.arrived = true;
    }
    return {};
  }

  Store& store_;
  const NamespaceId ns_;
  const SlotFile& file_;
  const File& out_;
  const std::span<BlockRead> blocks_;
  const std::uint64_t token_bytes_;
  std::uint64_t room_ = 0;
  std::size_t batch_ = 1;

  std::mutex mutex_;  // guards all below
  std::condition_variable left_;
  std::size_t next_ = 0;
  std::uint32_t helpers_ = 0;
  bool closed_ = false;
  Status status_;
};

}  // namespace

void wait_until(Store& store, const std::atomic<bool>& done) {
  while (!done) store.wait(store.now() + std::chrono::seconds(1));
}

Status read_blocks(Store& store, NamespaceId ns, const SlotFile& file, const File& out, std::span<BlockRead> blocks,
                   Executor& helper) {
  // A helper that comes when all is done finds this and nothing else.
  const auto reading = std::make_shared<Reading>(store, ns, file, out, blocks);
  helper.post([reading] {
    if (!reading->join()) return;
    reading->work();
    reading->leave();
  });
  reading->work();
  return reading->close();
}

}  // namespace artesian
