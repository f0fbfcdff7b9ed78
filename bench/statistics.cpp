#include "bench/statistics.h"

#include <algorithm>

namespace artesian::bench {

double median(std::vector<double> values) {
  const std::size_t half = values.size() / 2;
  std::ranges::sort(values);
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace artesian::bench
