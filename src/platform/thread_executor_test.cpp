#include "platform/thread_executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <set>
#include <vector>

namespace artesian {
namespace {

TEST(ThreadExecutor, RunsEveryTaskBeforeItIsGone) {
  std::atomic<int> ran = 0;
  {
    auto executor = ThreadExecutor::open(4);
    ASSERT_TRUE(executor);
    EXPECT_EQ((*executor)->thread_count(), 4U);
    for (int i = 0; i < 1000; ++i) (*executor)->post([&] { ++ran; });
  }
  EXPECT_EQ(ran, 1000);
}

TEST(ThreadExecutor, RunsAsManyAtOnceAsItHasThreads) {
  auto executor = ThreadExecutor::open(3);
  ASSERT_TRUE(executor);
  std::latch together(3);  // passes only if three tasks are in it at the same time
  for (int i = 0; i < 3; ++i) (*executor)->post([&] { together.arrive_and_wait(); });
  together.wait();
}

TEST(ThreadExecutor, OneThreadKeepsTheOrderAndTasksMayPost) {
  std::vector<int> order;
  {
    auto executor = ThreadExecutor::open(0);  // at least one
    ASSERT_TRUE(executor);
    (*executor)->post([&] {
      order.push_back(1);
      (*executor)->post([&] { order.push_back(3); });
      order.push_back(2);
    });
    std::latch done(1);
    (*executor)->post([&] { done.count_down(); });
    done.wait();
  }
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

}  // namespace
}  // namespace artesian
