#include "nand/closed_form.h"

#include <algorithm>
#include <cmath>

namespace artesian::nand {

double lambert_w(double x) {
  // W e^W grows on [-1, 0]: bisection cannot fail there, and Newton's method does at the branch point.
  double low = -1, high = 0;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (middle * std::exp(middle) < x ? low : high) = middle;
  }
  return (low + high) / 2;
}

double fifo_write_amplification(double alpha) {
  return alpha / (alpha + lambert_w(-alpha * std::exp(-alpha)));
}

namespace {

double mixed(double alpha, double hot_share, double hot_writes, double hot_spare) {
  const double spare = alpha - 1;
  const double hot = fifo_write_amplification(1 + spare * hot_spare / hot_share);
  const double cold = fifo_write_amplification(1 + spare * (1 - hot_spare) / (1 - hot_share));
  return hot_writes * hot + (1 - hot_writes) * cold;
}

}  // namespace

HotCold best_hot_cold_split(double alpha, double hot_share, double hot_writes) {
  double low = 1e-6, high = 1 - 1e-6;  // one minimum between: ternary search
  for (int i = 0; i < 200; ++i) {
    const double first = low + (high - low) / 3, second = high - (high - low) / 3;
    if (mixed(alpha, hot_share, hot_writes, first) < mixed(alpha, hot_share, hot_writes, second)) {
      high = second;
    } else {
      low = first;
    }
  }
  const double best = (low + high) / 2;
  return {best, mixed(alpha, hot_share, hot_writes, best)};
}

double drive_writes_per_day(double pe_cycles, double alpha, double write_amplification, double years) {
  return pe_cycles * alpha / (write_amplification * 365 * years);
}

}  // namespace artesian::nand
