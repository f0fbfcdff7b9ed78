#include "bench/statistics.h"

#include <algorithm>
#include <utility>

namespace artesian::bench {

double median(std::vector<double> values) {
  const std::size_t half = values.size() / 2;
  std::ranges::sort(values);
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double median_or_0(std::vector<double> values) {
  return values.empty() ? 0 : median(std::move(values));
}

}  // namespace artesian::bench
