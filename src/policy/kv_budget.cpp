#include "policy/kv_budget.h"

#include <algorithm>

namespace artesian {

namespace {
double seconds(Nanos span) {
  return std::chrono::duration<double>(span).count();
}
}  // namespace

KvBudget::KvBudget(KvBudgetSettings settings)
    : rate_(static_cast<double>(settings.bytes_per_day) / 86'400.0),
      size_(rate_ * seconds(settings.burst)),
      level_(size_) {}

void KvBudget::advance(Nanos now) {
  if (started_ && now > last_) level_ = std::min(size_, level_ + rate_ * seconds(now - last_));
  last_ = started_ ? std::max(last_, now) : now;
  started_ = true;
}

bool KvBudget::take(std::uint64_t bytes, Nanos now) {
  if (!limited()) return true;
  advance(now);
  if (level_ < static_cast<double>(bytes)) return false;
  level_ -= static_cast<double>(bytes);
  return true;
}

void KvBudget::spend(std::uint64_t bytes, Nanos now) {
  advance(now);
  if (limited()) level_ -= static_cast<double>(bytes);
}

void KvBudget::give_back(std::uint64_t bytes) {
  level_ = std::min(size_, level_ + static_cast<double>(bytes));
}

double KvBudget::fill(Nanos now) {
  if (!limited()) return 1;
  advance(now);
  return size_ > 0 ? level_ / size_ : 0;
}

}  // namespace artesian
