#include "policy/kv_policy.h"

#include <algorithm>

#include "policy/kv_admission.h"
#include "policy/kv_eviction.h"
#include "policy/kv_worth.h"

namespace artesian {

namespace {
constexpr KvAdmissionInfo admissions[] = {
    {"first-sight", "whatever the budget allows, for one person's chats", make_kv_first_sight},
    {"second-sighting", "what was seen before, by ghost entries", make_kv_second_sighting},
    {"prefix-depth", "the first blocks of every prompt", make_kv_prefix_depth},
    {"shared-first", "shared prefixes at once, the rest with what the budget leaves", make_kv_shared_first},
    {"worth", "what is likely to be read again, at the price that spends the budget", make_kv_worth_admission},
};
constexpr KvEvictionInfo evictions[] = {
    {"clock", "carries forward what was hit since it was written", make_kv_clock},
    {"worth", "carries forward what is likely to be read again", make_kv_worth_eviction},
    {"arrival", "carries nothing forward", make_kv_arrival},
};

template <typename Row>
const Row* find(std::span<const Row> rows, std::string_view name) {
  const auto found = std::ranges::find(rows, name, &Row::name);
  return found == rows.end() ? nullptr : &*found;
}
}  // namespace

std::span<const KvAdmissionInfo> kv_admissions() {
  return admissions;
}
std::span<const KvEvictionInfo> kv_evictions() {
  return evictions;
}
const KvAdmissionInfo* find_kv_admission(std::string_view name) {
  return find(kv_admissions(), name);
}
const KvEvictionInfo* find_kv_eviction(std::string_view name) {
  return find(kv_evictions(), name);
}

KvChoice kv_default_choice() {
  return {&admissions[0], &evictions[0]};
}

Result<KvChoice> parse_kv_choice(std::string_view text) {
  if (text.empty() || text == "chats") return kv_default_choice();
  if (text == "shared") return KvChoice{find_kv_admission("worth"), find_kv_eviction("worth")};
  const auto plus = text.find('+');
  const KvChoice choice{find_kv_admission(text.substr(0, plus)),
                        plus == text.npos ? nullptr : find_kv_eviction(text.substr(plus + 1))};
  if (choice.admission != nullptr && choice.eviction != nullptr) return choice;
  std::string names;
  for (const KvAdmissionInfo& row : admissions) names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  std::string behind;
  for (const KvEvictionInfo& row : evictions) behind += fmt::format("{}{}", behind.empty() ? "" : ", ", row.name);
  return fail(Code::invalid, "'{}' is no policy: chats, shared, or ADMISSION+EVICTION of {} and {}", text, names,
              behind);
}

}  // namespace artesian
