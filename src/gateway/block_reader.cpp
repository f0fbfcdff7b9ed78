#include "gateway/block_reader.h"

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include "base/units.h"
#include "platform/arena.h"

namespace artesian {
namespace {

// A thread reads so much at once and writes it while another one reads.
constexpr std::uint64_t batch_bytes = 12 * MiB;
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
    auto memory = Arena::reserve(batch_ * room_, Arena::Pages::large);
    if (!memory) return end(fail(std::move(memory.error())));
    while (const auto own = take()) {
      if (auto done = read(*own, memory->span()); !done) return end(std::move(done));
    }
  }

 private:
  std::optional<std::span<BlockRead>> take() {
    const std::scoped_lock lock(mutex_);
    if (!status_ || next_ == blocks_.size()) return std::nullopt;
    const auto own = blocks_.subspan(next_, std::min(batch_, blocks_.size() - next_));
    next_ += own.size();
    return own;
  }
  void end(Status why) {
    const std::scoped_lock lock(mutex_);
    if (status_) status_ = std::move(why);
  }

  Status read(std::span<BlockRead> own, std::span<std::byte> memory) {
    std::vector<Get> gets;
    for (std::size_t i = 0; i < own.size(); ++i) {
      gets.push_back({.key = own[i].step.key, .buffer = memory.subspan(i * room_, room_), .pieces = {}});
    }
    store_.get(ns_, gets);
    for (std::size_t i = 0; i < own.size(); ++i) {
      const auto& step = own[i].step;
      own[i].lost = gets[i].outcome == Outcome::miss || gets[i].outcome == Outcome::corrupt;
      if (gets[i].outcome != Outcome::hit || gets[i].bytes != step.count * token_bytes_) continue;
      for (const SlotPart& part : block_parts(file_, step.first, step.used, step.count)) {
        if (auto written = out_.write(part.to, gets[i].buffer.subspan(part.from, part.bytes)); !written) return written;
      }
      own[i].arrived = true;
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
