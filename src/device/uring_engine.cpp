#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <optional>
#include <vector>

#include "device/io_backend.h"
#include "platform/uring.h"

namespace artesian {
namespace {

class UringEngine final : public IoEngine {
 public:
  UringEngine(Uring ring, std::uint32_t depth, std::span<const File> files, std::span<const DrivePlacement> placements,
              bool wakeable)
      : ring_(std::move(ring)), placements_(placements), commanded_(depth), wakeable_(wakeable) {
    // Behind the files, for each what takes commands.
    for (const File& file : files) fds_.push_back(file.fd());
    for (std::size_t i = 0; i < files.size(); ++i) {
      fds_.push_back(placements[i].nvme ? placements[i].nvme->fd() : files[i].fd());
    }
    if (ring_.register_files(fds_)) {
      for (std::size_t i = 0; i < fds_.size(); ++i) fds_[i] = static_cast<int>(i);
    }
    arm();
    submit();
  }

  std::string_view name() const override { return "io_uring"; }

  void start(const IoOperation& operation) override {
    UringIo io{.write = operation.write,
               .flush = operation.flush,
               .file = fds_[operation.file],
               .offset = operation.offset,
               .memory = operation.memory,
               .tag = operation.id};
    const DrivePlacement& placement = placements_[operation.file];
    nvme_uring_cmd command{};
    commanded_[operation.id] = 0;
    if (operation.write && operation.placement != 0) {
      if (placement.nvme) {
        command = placed_write(operation, placement);
        commanded_[operation.id] = command.data_len;
        io.file = fds_[placements_.size() + operation.file];
        io.command = &command;
      } else {
        io.write_stream = placement.stream_of(operation.placement);
      }
    }
    if (broken_ == 0 && ring_.prepare(io)) {
      prepared_.push_back(operation.id);
    } else {
      failed_.push_back({operation.id, broken_ != 0 ? broken_ : -EBUSY});
    }
  }

  void submit() override {
    while (!prepared_.empty() && go(false, std::nullopt)) {
    }
  }

  std::size_t reap(std::span<IoDone> out, bool block, Nanos timeout) override {
    if (!block && !prepared_.empty()) submit();
    if (block && failed_.empty()) wait(timeout);
    std::size_t count = 0;
    while (count < out.size() && !failed_.empty()) {
      out[count++] = failed_.front();
      failed_.pop_front();
    }
    std::array<UringDone, 64> done;
    const std::size_t reaped = ring_.reap(std::span(done).first(std::min(done.size(), out.size() - count)));
    in_ring_ -= reaped;
    for (std::size_t i = 0; i < reaped; ++i) {
      if (done[i].tag == Uring::wake_tag) {
        arm();
        submit();
      } else {
        out[count++] = {done[i].tag, result_of(done[i])};
      }
    }
    return count;
  }

  void wake() override { ring_.wake(); }

  bool register_memory(std::span<std::byte> memory) override { return ring_.register_memory(memory); }
  void unregister_memory(std::span<std::byte> memory) override { ring_.unregister_memory(memory); }

 private:
  // One command moves no more than the drive takes, of one piece of memory: a short write, with which the caller goes
  // on.
  static nvme_uring_cmd placed_write(const IoOperation& operation, const DrivePlacement& placement) {
    const iovec& first = operation.memory[0];
    const std::size_t bytes = std::min<std::size_t>(first.iov_len, placement.command_bytes_max);
    return nvme_placed_write(placement.nvme->nsid(), operation.offset / placement.block_bytes, placement.block_bytes,
                             {static_cast<const std::byte*>(first.iov_base), bytes},
                             placement.placement_of(operation.placement));
  }

  // A command says 0 or what the drive has against it.
  std::int64_t result_of(const UringDone& done) const {
    const std::uint32_t bytes = commanded_[done.tag];
    if (bytes == 0 || done.result < 0) return done.result;
    return done.result == 0 ? std::int64_t{bytes} : -EIO;
  }

  void arm() {
    if (wakeable_ && broken_ == 0 && ring_.prepare_wake()) prepared_.push_back(Uring::wake_tag);
  }

  void wait(Nanos timeout) {
    if (broken_ == 0) {
      go(true, timeout == Nanos::max() ? std::nullopt : std::optional(timeout));
    } else if (in_ring_ > (wakeable_ ? 1 : 0)) {
      ring_.wait_only();
    }
  }

  // One system call. False if the kernel took nothing of what is prepared: later, or never.
  bool go(bool block, std::optional<Nanos> timeout) {
    const int result = ring_.submit(block, timeout);
    const std::size_t left = ring_.prepared();
    const bool moved = left < prepared_.size();
    while (prepared_.size() > left) {
      prepared_.pop_front();
      ++in_ring_;
    }
    const bool passing = result == 0 || result == -EINTR || result == -EAGAIN || result == -EBUSY || result == -ETIME;
    if (passing) return moved;
    // The ring itself does not work any more. What it did not take has failed; what it took is still waited for.
    broken_ = result;
    for (const std::uint64_t id : prepared_) {
      if (id != Uring::wake_tag) failed_.push_back({id, result});
    }
    prepared_.clear();
    return false;
  }

  Uring ring_;
  std::vector<int> fds_;  // descriptors, or their numbers in the ring's own table
  std::span<const DrivePlacement> placements_;
  std::vector<std::uint32_t> commanded_;  // by id: bytes of the command under way; 0: it is no command
  std::deque<std::uint64_t> prepared_;    // not yet taken by the kernel, in order
  std::deque<IoDone> failed_;             // never taken by it
  std::size_t in_ring_ = 0;
  int broken_ = 0;
  bool wakeable_ = false;
};

}  // namespace

Result<std::unique_ptr<IoEngine>> make_uring_engine(std::uint32_t depth, std::span<const File> files,
                                                    std::span<const DrivePlacement> placements, bool wakeable) {
  const bool commands = std::ranges::any_of(placements, [](const DrivePlacement& one) { return one.nvme.has_value(); });
  auto ring = Uring::open(wakeable ? depth + 1 : depth, commands);
  if (!ring) return fail(std::move(ring.error()));
  return std::make_unique<UringEngine>(std::move(*ring), depth, files, placements, wakeable);
}

}  // namespace artesian
