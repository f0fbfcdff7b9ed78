#include "nand/closed_form.h"

#include <gtest/gtest.h>

#include <cmath>

namespace artesian::nand {
namespace {

TEST(ClosedForm, LambertWIsTheInverseOfWTimesExpW) {
  for (const double w : {-0.999, -0.9, -0.5, -0.2, -0.01}) EXPECT_NEAR(lambert_w(w * std::exp(w)), w, 1e-9);
}

TEST(ClosedForm, FifoGivesThePublishedFigures) {
  EXPECT_NEAR(fifo_write_amplification(1.07), 7.82, 0.005);
  EXPECT_NEAR(fifo_write_amplification(1.20), 3.19, 0.005);
  EXPECT_NEAR(fifo_write_amplification(1.28), 2.48, 0.005);
  EXPECT_NEAR(fifo_write_amplification(1.50), 1.72, 0.005);
}

TEST(ClosedForm, FifoSolvesItsOwnBalance) {
  // A page is still valid after a whole pass with probability e^(-alpha / WA); that share of every block is copied.
  for (const double alpha : {1.05, 1.2, 2.0}) {
    const double wa = fifo_write_amplification(alpha);
    EXPECT_NEAR(std::exp(-alpha / wa), 1 - 1 / wa, 1e-9) << alpha;
  }
}

TEST(ClosedForm, ABestSplitBeatsItsNeighboursAndMixing) {
  const auto best = best_hot_cold_split(1.2, 0.2, 0.8);
  EXPECT_LT(best.write_amplification, fifo_write_amplification(1.2));
  EXPECT_GT(best.hot_spare, 0.2);  // hotter data are given more than their share
  // nothing to gain where nothing is hotter
  EXPECT_NEAR(best_hot_cold_split(1.2, 0.3, 0.3).write_amplification, fifo_write_amplification(1.2), 1e-6);
  EXPECT_NEAR(best_hot_cold_split(1.2, 0.3, 0.3).hot_spare, 0.3, 1e-3);
}

TEST(ClosedForm, DriveWritesPerDay) {
  EXPECT_NEAR(drive_writes_per_day(3650, 1.0, 2.0, 5), 1.0, 1e-12);
}

}  // namespace
}  // namespace artesian::nand
