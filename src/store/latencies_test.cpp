#include "store/latencies.h"

#include <gtest/gtest.h>

namespace artesian {
namespace {

TEST(Latencies, SayWithinWhatAPartLay) {
  Latencies latencies;
  EXPECT_EQ(latencies.within_us(0.5), 0U);
  for (int i = 0; i < 980; ++i) latencies.add(std::chrono::microseconds(100 + i % 20));
  for (int i = 0; i < 20; ++i) latencies.add(std::chrono::milliseconds(7));
  EXPECT_EQ(latencies.within_us(0.5), 128U);
  EXPECT_EQ(latencies.within_us(0.99), 8192U);
  latencies.add(Nanos(0));
  latencies.add(std::chrono::hours(1000));
  EXPECT_EQ(latencies.within_us(0.0001), 1U);
}

}  // namespace
}  // namespace artesian
