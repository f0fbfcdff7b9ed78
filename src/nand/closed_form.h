// What theory says a drive must do, to hold the model against. All pure arithmetic.
//
// Write amplification of FIFO (log-structured, oldest first) cleaning under uniform random writes, for blocks of many
// pages: WA = a / (a + W(-a e^-a)) with a = physical / logical and W Lambert's function, main branch (P. Desnoyers,
// "Analytic Models of SSD Write Performance", ACM Transactions on Storage 10(2), 2014; there for "LRU" cleaning).
#pragma once

#include <cstdint>

namespace artesian::nand {

// Main branch of Lambert's W for -1/e <= x <= 0.
double lambert_w(double x);

// `alpha` is physical / logical, above 1.
double fifo_write_amplification(double alpha);

// A region of `hot_share` of the logical space takes `hot_writes` of the writes (both uniform inside), each region
// cleaned by itself. `hot_spare` is the share of the spare space that the hot region is given, chosen to write least.
struct HotCold {
  double hot_spare = 0;
  double write_amplification = 0;
};
HotCold best_hot_cold_split(double alpha, double hot_share, double hot_writes);

// Drive writes a day that use up `pe_cycles` in `years`.
double drive_writes_per_day(double pe_cycles, double alpha, double write_amplification, double years);

}  // namespace artesian::nand
