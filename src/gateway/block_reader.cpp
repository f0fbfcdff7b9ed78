#include "gateway/block_reader.h"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/units.h"

namespace artesian {
namespace {

// One is written, the two others are on their way from the drive, which is never without work.
constexpr std::uint64_t batch_bytes = block_bytes_aim;
constexpr std::size_t batches = 3;
constexpr std::uint64_t page = 4 * KiB;

class Reading {
 public:
  Reading(Store& store, NamespaceId ns, const SlotFile& file, const File& out, std::span<BlockRead> blocks,
          Executor& helper, std::uint64_t room, std::size_t batch)
      : store_(store), ns_(ns), file_(file), out_(out), helper_(helper), left_(blocks), room_(room), batch_(batch) {}

  Status run(std::span<std::byte> memory) {
    std::array<Flight, batches> flights;
    for (std::size_t i = 0; i < batches; ++i) {
      flights[i].memory = memory.subspan(i * batch_ * room_, batch_ * room_);
      begin(flights[i]);
    }
    std::shared_ptr<Writing> before;
    for (std::size_t i = 0; !flights[i].own.empty(); i = (i + 1) % batches) {
      wait_until(store_, flights[i].done);
      if (before != nullptr) finish(*before);
      before = std::make_shared<Writing>(*this, flights[i]);
      helper_.post([now = before] { now->once(); });
    }
    if (before != nullptr) finish(*before);
    return std::move(status_);
  }

 private:
  // Blocks on their way from the drive, or none.
  struct Flight {
    std::span<std::byte> memory;
    std::span<BlockRead> own;
    std::vector<Get> gets;
    std::atomic<bool> done = false;
  };

  // The writing of a flight, by the helper, or by the caller if the helper has not begun it. Once that is done, one
  // that comes late touches nothing.
  class Writing {
   public:
    Writing(Reading& reading, Flight& flight) : reading_(reading), flight_(flight) {}
    void once() {
      std::call_once(done_, [this] { status_ = reading_.write(flight_); });
    }
    Flight& flight() { return flight_; }
    Status take_status() { return std::move(status_); }

   private:
    Reading& reading_;
    Flight& flight_;
    std::once_flag done_;
    Status status_;
  };

  // After a failure nothing more is asked for, and what is on its way is waited for.
  void finish(Writing& writing) {
    writing.once();
    auto status = writing.take_status();
    if (!status) {
      status_ = std::move(status);
      left_ = {};
    }
    begin(writing.flight());
  }

  void begin(Flight& flight) {
    flight.own = left_.first(std::min(batch_, left_.size()));
    left_ = left_.subspan(flight.own.size());
    if (flight.own.empty()) return;
    flight.gets.clear();
    flight.done = false;
    for (std::size_t i = 0; i < flight.own.size(); ++i) {
      const auto room = flight.memory.subspan(i * room_, room_);
      flight.gets.push_back({.key = flight.own[i].step.key, .buffer = room, .pieces = {}});
    }
    store_.submit(ns_, flight.gets, {}, [&flight] { flight.done = true; });
  }

  Status write(Flight& flight) {
    for (std::size_t i = 0; i < flight.own.size(); ++i) {
      BlockRead& block = flight.own[i];
      const Get& get = flight.gets[i];
      const auto& step = block.step;
      block.lost = get.outcome == Outcome::miss || get.outcome == Outcome::corrupt;
      if (get.outcome != Outcome::hit || get.bytes != step.count * file_.layout.token_bytes()) continue;
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
  Executor& helper_;
  std::span<BlockRead> left_;  // not asked for yet
  const std::uint64_t room_;
  const std::size_t batch_;
  Status status_;
};

}  // namespace

void wait_until(Store& store, const std::atomic<bool>& done) {
  while (!done) store.wait(store.now() + std::chrono::seconds(1));
}

BlockReader::BlockReader(Store& store, NamespaceId ns, std::uint64_t block_bytes)
    : store_(store),
      ns_(ns),
      room_(align_up(std::max<std::uint64_t>(block_bytes, 1), page)),
      batch_(std::max<std::uint64_t>(batch_bytes / room_, 1)) {}

Result<Arena> BlockReader::take() {
  {
    const std::scoped_lock lock(mutex_);
    if (kept_.size() > 0) return std::exchange(kept_, Arena());
  }
  return Arena::reserve(batches * batch_ * room_, Arena::Pages::large);
}

void BlockReader::give_back(Arena memory) {
  const std::scoped_lock lock(mutex_);
  kept_ = std::move(memory);
}

Status BlockReader::warm() {
  auto memory = take();
  if (!memory) return fail(std::move(memory.error()));
  std::ranges::fill(memory->span(), std::byte{0});
  give_back(std::move(*memory));
  return {};
}

Status BlockReader::read(const SlotFile& file, const File& out, std::span<BlockRead> blocks, Executor& helper) {
  auto memory = take();
  if (!memory) return fail(std::move(memory.error()));
  auto read = Reading(store_, ns_, file, out, blocks, helper, room_, batch_).run(memory->span());
  give_back(std::move(*memory));
  return read;
}

}  // namespace artesian
