// Keys seen lately, stored or not, and how often: a bounded memory that forgets what was not seen for longest.
// Pure; not thread safe.
#pragma once

#include <cstdint>
#include <list>
#include <unordered_map>

#include "base/key_hash.h"

namespace artesian {

class KvGhosts {
 public:
  explicit KvGhosts(std::size_t keys_max) : keys_max_(keys_max) {}

  std::uint32_t see(const KeyHash& key);              // sightings with this one
  void see_put(const KeyHash& key);                   // counts only while nothing else has named the key
  std::uint32_t sightings(const KeyHash& key) const;  // 0: never, or forgotten
  std::size_t size() const { return places_.size(); }

 private:
  struct Ghost {
    KeyHash key;
    std::uint32_t sightings = 0;
    bool only_puts = false;
  };
  std::size_t keys_max_;
  std::list<Ghost> ghosts_;  // seen last at the back
  std::unordered_map<KeyHash, std::list<Ghost>::iterator, KeyHashHash> places_;
};

}  // namespace artesian
