// A Device in front of another one that goes wrong as a seed says: errors, short reads, flipped bits, writes that are
// lost, torn or land elsewhere, late and reordered completions, and the n-th call failing. What did not arrive is
// overwritten with rubbish, so that whoever computes on it is found out. The same seed and the same calls give the same
// faults.
//
// Threads: as Device. Ownership: the device behind is the caller's and lives longer.
#pragma once

#include <deque>
#include <random>
#include <vector>

#include "device/device.h"

namespace artesian {

struct FaultPlan {
  std::uint64_t seed = 1;
  double error_rate = 0;              // share of requests that end in an error
  double short_rate = 0;              // share of reads of which only a part arrives; an error, too
  double flip_rate = 0;               // share of reads with one flipped bit and no error at all
  double lost_rate = 0;               // share of writes that succeed and never reach the drive
  double torn_rate = 0;               // share of writes that succeed and reach it in part
  double misdirect_rate = 0;          // share of reads and writes that succeed at another place of the file
  std::uint32_t hold_max = 0;         // a completion stays back for up to so many calls of poll or wait, others pass it
  std::uint64_t fail_submit = 0;      // the n-th submit fails (from 1; 0: none),
  std::uint64_t fail_completion = 0;  // the n-th request that ends does so in an error
  bool fail_from_then_on = false;     // and all after it
};

class FaultyDevice final : public Device {
 public:
  FaultyDevice(Device& behind, FaultPlan plan);

  const DeviceFacts& facts() const override { return behind_.facts(); }
  DeviceCounters counters() const override;
  Status submit(std::span<const IoRequest> requests) override;
  std::size_t poll(std::span<IoCompletion> out) override;
  std::size_t wait(std::span<IoCompletion> out, Nanos deadline) override;
  bool register_memory(std::span<std::byte> memory) override { return behind_.register_memory(memory); }
  void wake() override { behind_.wake(); }
  void unregister_memory(std::span<std::byte> memory) override { behind_.unregister_memory(memory); }
  Status discard(FileIndex file, std::uint64_t offset, std::uint64_t bytes) override;
  Status flush() override { return behind_.flush(); }

  // How many there were, for a loop over n that ends when a run had fewer.
  std::uint64_t submits() const { return submits_; }
  std::uint64_t completions() const { return completions_; }
  std::uint64_t faults() const { return faults_; }

 private:
  struct Held {
    IoCompletion completion;
    std::uint32_t calls_left = 0;
  };

  // A request on its way: what was asked for, and what the device behind is asked for.
  struct Sent {
    IoRequest request;
    std::vector<std::span<std::byte>> pieces;  // of a torn write
  };

  bool chosen(double rate);
  bool mislead(IoRequest& request, Sent& sent);
  bool is_nth(std::uint64_t count, std::uint64_t n) const;
  void take(std::span<IoCompletion> completions);
  void spoil(const IoRequest& request, IoCompletion& completion);
  void release_due();
  void release_any();
  std::size_t deliver(std::span<IoCompletion> out);

  Device& behind_;
  FaultPlan plan_;
  std::mt19937_64 random_;
  std::deque<Sent> sent_;  // under the tag that the device behind sees; never moved while it is there
  std::vector<std::uint64_t> free_;
  std::vector<IoCompletion> lost_;  // of writes that the device behind never saw
  std::vector<Held> held_;
  std::deque<IoCompletion> ready_;
  std::uint64_t submits_ = 0, completions_ = 0, faults_ = 0;
};

}  // namespace artesian
