// What a server learns about when blocks come back. Every block belongs to a class (how often it was seen, how much of
// the prompt around it was new); ages are cut into bins. In each bin the share of blocks that came back is counted for
// all blocks together, and for each class how many times as often as that its own blocks do. From these follows a
// block's worth: the chance that it is wanted within `horizon`, given its class and the time since it was last wanted.
// Blocks that have not come back yet count at once as not having come back so far, so nothing waits for an outcome.
// Pure; not thread safe. Memory: keys_max entries of about 150 bytes.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>

#include "policy/kv_policy.h"

namespace artesian {

struct KvReuseSettings {
  std::uint32_t keys_max = 65'536;            // keys remembered; those wanted least lately are forgotten
  Nanos horizon = std::chrono::seconds(150);  // about the middle of the times between two turns
};

class KvReuse {
 public:
  explicit KvReuse(KvReuseSettings settings);

  void on_prompt(std::span<const KvFacts> prompt, Nanos now);

  // The state of a block, all there is to its worth: its class, and when it was last wanted. For a key that is not
  // remembered those of a block seen once, now.
  std::uint64_t state(const KeyHash& key, Nanos now) const;
  static std::uint64_t touched(std::uint64_t state, Nanos now);  // the same block, wanted now
  double worth(std::uint64_t state, Nanos now) const;            // 0 to 1

  bool knows(const KeyHash& key) const { return places_.contains(key); }
  std::size_t size() const { return places_.size(); }

 private:
  static constexpr std::size_t bins = 14, classes = 64;
  struct Entry {
    KeyHash key;
    Nanos last{0};
    std::uint32_t sightings = 0;
    std::uint32_t fork = 0;  // sightings of the block before the first new one, when this one was new; capped
    std::uint8_t kind = 0;   // class
    std::uint8_t bin = 0;
  };
  using Place = std::list<Entry>::iterator;

  void age(Nanos now);
  void learn();
  void touch(const KvFacts& block, std::uint32_t new_blocks, std::uint32_t fork, Nanos now);
  std::uint8_t class_of(const KvFacts& block, const Entry& entry, std::uint32_t new_blocks) const;
  double survival(std::size_t kind, double age_s) const;

  KvReuseSettings settings_;
  std::array<std::list<Entry>, bins> by_age_;  // each in order of `last`
  std::unordered_map<KeyHash, Place, KeyHashHash> places_;
  std::array<std::array<double, bins>, classes> hits_{}, exposed_{};
  std::array<double, bins> all_hits_{}, all_exposed_{};
  std::array<std::array<double, bins>, classes> chance_{};  // of coming back in a bin, of those that live to see it
  Nanos learnt_{0};
};

}  // namespace artesian
