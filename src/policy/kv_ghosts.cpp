#include "policy/kv_ghosts.h"

namespace artesian {

std::uint32_t KvGhosts::see(const KeyHash& key) {
  if (keys_max_ == 0) return 1;
  const auto found = places_.find(key);
  if (found != places_.end()) {
    ghosts_.splice(ghosts_.end(), ghosts_, found->second);
    found->second->only_puts = false;
    return ++found->second->sightings;
  }
  if (places_.size() >= keys_max_) {
    places_.erase(ghosts_.front().key);
    ghosts_.pop_front();
  }
  places_.emplace(key, ghosts_.insert(ghosts_.end(), Ghost{key, 1, false}));
  return 1;
}

void KvGhosts::see_put(const KeyHash& key) {
  const auto found = places_.find(key);
  if (keys_max_ == 0 || (found != places_.end() && !found->second->only_puts)) return;
  see(key);
  ghosts_.back().only_puts = true;
}

std::uint32_t KvGhosts::sightings(const KeyHash& key) const {
  const auto found = places_.find(key);
  return found == places_.end() ? 0 : found->second->sightings;
}

}  // namespace artesian
