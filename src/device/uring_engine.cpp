#include <algorithm>
#include <array>

#include "device/io_backend.h"
#include "platform/uring.h"

namespace artesian {
namespace {

class UringEngine final : public IoEngine {
 public:
  explicit UringEngine(std::unique_ptr<Uring> ring) : ring_(std::move(ring)) {}

  std::string_view name() const override { return "io_uring"; }

  bool start(const IoOperation& operation) override {
    pending_ = true;
    const int fd = operation.file->fd();
    return operation.write ? ring_->write(fd, operation.buffer, operation.offset, operation.id)
                           : ring_->read(fd, operation.buffer, operation.offset, operation.id);
  }

  void submit() override {
    if (!pending_) return;
    pending_ = false;
    (void)ring_->submit(false, 0).has_value();  // what the kernel did not take stays queued and goes with the next call
  }

  std::size_t reap(std::span<IoDone> out, bool block, Nanos timeout) override {
    if (block) (void)ring_->submit(true, static_cast<std::uint64_t>(timeout.count())).has_value();
    std::array<Uring::Done, 64> done;
    const std::size_t count = ring_->reap(std::span(done).first(std::min(done.size(), out.size())));
    for (std::size_t i = 0; i < count; ++i) {
      const bool failed = done[i].result < 0;
      out[i] = {.id = done[i].user_data,
                .bytes = failed ? 0 : static_cast<std::uint64_t>(done[i].result),
                .error = failed ? -done[i].result : 0};
    }
    return count;
  }

  bool register_memory(std::span<std::byte>) override { return false; }

 private:
  std::unique_ptr<Uring> ring_;
  bool pending_ = false;
};

}  // namespace

Result<std::unique_ptr<IoEngine>> make_uring_engine(std::uint32_t depth) {
  auto ring = Uring::create(depth);
  if (!ring) return fail(std::move(ring.error()));
  return std::make_unique<UringEngine>(std::move(*ring));
}

}  // namespace artesian
