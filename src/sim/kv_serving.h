// A model server whose prompts come from a recorded trace and whose KV blocks go through the store: each prompt is
// looked up, what is worth it is read and compared, the rest is computed at the prefill rate, one prompt after the
// other, and what was computed is put. Decoding happens elsewhere and takes no time here.
//
// Not thread safe; acts on a Node. Store, trace and clock are the caller's.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "artesian/store.h"
#include "bench/kv_trace.h"
#include "nand/serving.h"
#include "platform/arena.h"
#include "sim/node.h"

namespace artesian::sim {

class KvServing final : public Actor {
 public:
  // `bytes_per_second`: of the drive, for the decision to load or to compute.
  static Result<std::unique_ptr<KvServing>> create(Store& store, NamespaceId ns, const Clock& clock,
                                                   const bench::KvTrace& trace, const nand::Serving& serving,
                                                   double bytes_per_second);

  Nanos next() const override;
  void act() override;

  // All prompts are answered and all that was put is stored.
  bool finished() const;
  double progress() const { return static_cast<double>(answered_) / static_cast<double>(requests_); }
  // corrupt when a block came back with other bytes.
  const Status& status() const { return status_; }
  const nand::TokenReport& report() const { return report_; }

  static std::uint64_t block_bytes(const nand::Serving& serving);

 private:
  struct Prompt {
    const bench::KvRequest* request = nullptr;
    Nanos arrived{0};
    std::size_t whole = 0;   // blocks that have a key
    std::size_t loaded = 0;  // of them, from the front, that need not be computed
    std::size_t left = 0;    // reads under way or waiting
  };
  // One block on its way.
  struct Transfer {
    bool put = false;
    std::shared_ptr<Prompt> prompt;
    std::size_t position = 0;
    std::uint32_t buffer = 0;
    std::uint32_t key = 0, parent = 0;
    Get get_item;
    Put put_item;
    bool ended = false;
  };

  KvServing(Store& store, NamespaceId ns, const Clock& clock, const bench::KvTrace& trace, const nand::Serving& serving,
            double bytes_per_second, Arena memory);
  Nanos arrival(std::size_t index) const;
  void arrive(const bench::KvRequest& request);
  bool take_ended();
  void end_get(const Transfer& transfer);
  bool compute();
  void answer();
  bool start_transfers();
  void start(Transfer& transfer);
  std::span<std::byte> buffer(std::uint32_t index) {
    return memory_.span().subspan(index * block_bytes_, block_bytes_);
  }

  Store& store_;
  NamespaceId ns_;
  const Clock& clock_;
  const bench::KvTrace& trace_;
  nand::Serving serving_;
  double bytes_per_second_;
  std::uint64_t block_bytes_;
  Arena memory_;
  std::vector<std::uint32_t> free_buffers_;
  std::size_t requests_, next_ = 0, answered_ = 0;
  std::deque<std::unique_ptr<Transfer>> reads_, puts_;  // wait for a buffer; reads go first
  std::vector<std::unique_ptr<Transfer>> under_way_;
  std::uint64_t reading_ = 0;                       // blocks, waiting or under way
  std::deque<std::shared_ptr<Prompt>> computable_;  // all that they read is there
  std::shared_ptr<Prompt> computing_;
  Nanos computed_at_{0};
  nand::TokenReport report_;
  Status status_;
};

}  // namespace artesian::sim
