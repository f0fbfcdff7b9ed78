#include "policy/kv_reuse.h"

#include <algorithm>

namespace artesian {

namespace {

// Ends of the bins, seconds; the last has none.
constexpr double bin_end_s[] = {15, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1080, 1800};
constexpr Nanos learn_every = std::chrono::seconds(15);
constexpr double chance_prior = 0.02, chance_prior_blocks = 20;  // of coming back in a bin, before anything is known
constexpr double class_prior_hits = 15;                          // a class is like all others until it has as many
constexpr double chance_max = 0.9;

constexpr std::uint8_t class_returned = 20, class_partial = 63;
constexpr std::uint32_t fork_root = 1000;  // nothing before it

double seconds(Nanos span) {
  return std::chrono::duration<double>(span).count();
}

std::uint8_t length_class(std::uint32_t blocks) {
  return blocks <= 4 ? 0 : blocks <= 16 ? 1 : blocks <= 32 ? 2 : blocks <= 64 ? 3 : 4;
}

}  // namespace

KvReuse::KvReuse(KvReuseSettings settings) : settings_(settings) {
  settings_.keys_max = std::max<std::uint32_t>(settings_.keys_max, 1);
  learn();
}

// New blocks: by how many are new with them, and by what they hang on: a prefix of everybody's (a new conversation), or
// something that few have seen (a conversation that returned with much new text rarely goes on from there). Blocks seen
// before: by how often, and by how much the prompt that wants them now adds.
std::uint8_t KvReuse::class_of(const KvFacts& block, const Entry& entry, std::uint32_t new_blocks) const {
  if (block.partial) return class_partial;
  const std::uint8_t length = length_class(new_blocks);
  if (entry.sightings == 1) {
    const int fork = entry.fork >= 64 ? 0 : entry.fork >= 16 ? 1 : entry.fork >= 4 ? 2 : 3;
    return static_cast<std::uint8_t>(length + 5 * fork);
  }
  const std::uint32_t seen = entry.sightings;
  const int often = seen >= 16 ? 5 : seen >= 8 ? 4 : seen >= 5 ? 3 : static_cast<int>(seen) - 2;
  return static_cast<std::uint8_t>(class_returned + often + 6 * length);
}

void KvReuse::on_prompt(std::span<const KvFacts> prompt, Nanos now) {
  age(now);
  if (now - learnt_ >= learn_every) {
    learn();
    learnt_ = now;
  }
  std::size_t known = 0;
  std::uint32_t fork = fork_root;
  for (; known < prompt.size(); ++known) {
    const auto found = places_.find(prompt[known].key);
    if (found == places_.end()) break;
    fork = std::min(fork_root, found->second->sightings + 1);
  }
  const auto new_blocks = static_cast<std::uint32_t>(prompt.size() - known);
  for (const KvFacts& block : prompt) touch(block, new_blocks, fork, now);
}

void KvReuse::touch(const KvFacts& block, std::uint32_t new_blocks, std::uint32_t fork, Nanos now) {
  const auto found = places_.find(block.key);
  Place entry;
  if (found != places_.end()) {
    entry = found->second;
    hits_[entry->kind][entry->bin] += 1;
    exposed_[entry->kind][entry->bin] += 1;
    all_hits_[entry->bin] += 1;
    all_exposed_[entry->bin] += 1;
    by_age_[0].splice(by_age_[0].end(), by_age_[entry->bin], entry);
  } else {
    if (places_.size() >= settings_.keys_max) {
      auto& oldest = *std::ranges::find_if(by_age_.rbegin(), by_age_.rend(), [](const auto& l) { return !l.empty(); });
      places_.erase(oldest.front().key);
      oldest.pop_front();
    }
    entry = by_age_[0].insert(by_age_[0].end(), Entry{block.key, now, 0, fork, 0, 0});
    places_.emplace(block.key, entry);
  }
  ++entry->sightings;
  entry->last = now;
  entry->bin = 0;
  entry->kind = class_of(block, *entry, new_blocks);
}

// Whoever passes the end of a bin has not come back in it.
void KvReuse::age(Nanos now) {
  for (std::size_t bin = 0; bin + 1 < bins; ++bin) {
    auto& list = by_age_[bin];
    while (!list.empty() && seconds(now - list.front().last) >= bin_end_s[bin]) {
      Entry& entry = list.front();
      exposed_[entry.kind][bin] += 1;
      all_exposed_[bin] += 1;
      entry.bin = static_cast<std::uint8_t>(bin + 1);
      by_age_[bin + 1].splice(by_age_[bin + 1].end(), list, list.begin());
    }
  }
}

void KvReuse::learn() {
  std::array<double, bins> all{};
  for (std::size_t bin = 0; bin < bins; ++bin) {
    all[bin] = (all_hits_[bin] + chance_prior * chance_prior_blocks) / (all_exposed_[bin] + chance_prior_blocks);
  }
  for (std::size_t kind = 0; kind < classes; ++kind) {
    double hits = class_prior_hits;
    double expected = class_prior_hits;
    for (std::size_t bin = 0; bin < bins; ++bin) {
      hits += hits_[kind][bin];
      expected += exposed_[kind][bin] * all[bin];
    }
    for (std::size_t bin = 0; bin < bins; ++bin) {
      chance_[kind][bin] = std::min(chance_max, all[bin] * hits / expected);
    }
  }
}

// Share of a class that has not come back by this age; nothing is expected beyond the last bin that ends.
double KvReuse::survival(std::size_t kind, double age_s) const {
  double left = 1;
  double begin = 0;
  for (std::size_t bin = 0; bin + 1 < bins && age_s > begin; ++bin) {
    left *= 1 - chance_[kind][bin] * std::min(1.0, (age_s - begin) / (bin_end_s[bin] - begin));
    begin = bin_end_s[bin];
  }
  return left;
}

std::uint64_t KvReuse::state(const KeyHash& key, Nanos now) const {
  const auto found = places_.find(key);
  return touched(found == places_.end() ? 0 : found->second->kind, found == places_.end() ? now : found->second->last);
}

// Milliseconds above, the class in the lowest byte.
std::uint64_t KvReuse::touched(std::uint64_t state, Nanos now) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  return (static_cast<std::uint64_t>(ms) << 8) | (state & 0xFF);
}

double KvReuse::worth(std::uint64_t state, Nanos now) const {
  const std::size_t kind = std::min<std::size_t>(state & 0xFF, classes - 1);
  const Nanos last = std::chrono::milliseconds(state >> 8);
  const double age_s = std::max(0.0, seconds(now - last));
  return 1 - survival(kind, age_s + seconds(settings_.horizon)) / std::max(1e-12, survival(kind, age_s));
}

}  // namespace artesian
