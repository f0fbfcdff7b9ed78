#include "device/faulty_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "base/units.h"
#include "device/memory_device.h"
#include "platform/arena.h"

namespace artesian {
namespace {

constexpr std::uint64_t block = 4096, blocks = 64;

std::byte pattern(std::uint64_t offset) {
  return static_cast<std::byte>(offset / block * 3 + offset % 251);
}

struct Outcome {
  std::vector<std::uint64_t> order;
  std::uint64_t errors = 0, wrong = 0, faults = 0;
  bool operator==(const Outcome&) const = default;
};

// Reads 64 blocks through the plan; whatever ends in success is compared, but for flips that are asked for.
Outcome run(const FaultPlan& plan) {
  MemoryDevice memory({blocks * block}, [](FileIndex, std::uint64_t offset, std::span<std::byte> out) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = pattern(offset + i);
  });
  FaultyDevice device(memory, plan);
  auto arena = Arena::reserve(blocks * block).value();
  Outcome outcome;
  std::vector<IoRequest> requests;
  for (std::uint64_t i = 0; i < blocks; ++i) {
    requests.push_back({.offset = i * block, .buffer = arena.span().subspan(i * block, block), .tag = 1000 + i});
  }
  if (auto submitted = device.submit(requests); !submitted) {
    EXPECT_EQ(submitted.error().code, Code::device_failed);
    outcome.faults = device.faults();
    return outcome;
  }
  std::array<IoCompletion, 3> some;
  while (const std::size_t count = device.wait(some, Nanos::max())) {
    for (const auto& done : std::span(some).first(count)) {
      outcome.order.push_back(done.tag);
      const auto place = arena.span().subspan((done.tag - 1000) * block, block);
      std::uint64_t right = 0;
      for (std::uint64_t i = 0; i < block; ++i) right += place[i] == pattern((done.tag - 1000) * block + i);
      if (!done.status) {
        ++outcome.errors;
        EXPECT_EQ(done.status.error().code, Code::device_failed);
        EXPECT_NE(done.status.error().message.find(fmt::format("offset {}", (done.tag - 1000) * block)),
                  std::string::npos);
        EXPECT_LT(right, block) << "a request that failed left the right bytes behind";
      } else if (right != block) {
        ++outcome.wrong;
        EXPECT_EQ(right, block - 1);  // one bit, so one byte
      }
    }
  }
  EXPECT_EQ(outcome.order.size(), blocks);
  outcome.faults = device.faults();
  return outcome;
}

TEST(FaultyDevice, WithoutFaultsChangesNothing) {
  const Outcome outcome = run({});
  EXPECT_EQ(outcome.errors + outcome.wrong + outcome.faults, 0U);
  EXPECT_TRUE(std::ranges::is_sorted(outcome.order));
}

class FaultySeeds : public testing::TestWithParam<std::uint64_t> {};

TEST_P(FaultySeeds, EveryRequestEndsOnceAndFaultsAreErrors) {
  const FaultPlan plan{.seed = GetParam(), .error_rate = 0.2, .short_rate = 0.2, .hold_max = 5};
  SCOPED_TRACE(fmt::format("seed {}", plan.seed));
  Outcome outcome = run(plan);
  EXPECT_GT(outcome.errors, 0U);
  EXPECT_LT(outcome.errors, blocks);
  EXPECT_EQ(outcome.errors, outcome.faults);
  EXPECT_EQ(outcome.wrong, 0U);
  EXPECT_EQ(run(plan), outcome);  // the same again
  EXPECT_FALSE(std::ranges::is_sorted(outcome.order));
  std::ranges::sort(outcome.order);
  for (std::uint64_t i = 0; i < blocks; ++i) EXPECT_EQ(outcome.order[i], 1000 + i);
}

TEST_P(FaultySeeds, FlippedBitsComeAsSuccess) {
  const Outcome outcome = run({.seed = GetParam(), .flip_rate = 0.5});
  SCOPED_TRACE(fmt::format("seed {}", GetParam()));
  EXPECT_EQ(outcome.errors, 0U);
  EXPECT_GT(outcome.wrong, 0U);
  EXPECT_EQ(outcome.wrong, outcome.faults);
}

INSTANTIATE_TEST_SUITE_P(Seeds, FaultySeeds, testing::Range<std::uint64_t>(1, 9));

TEST(FaultyDevice, TheNthFailsAloneOrWithAllAfterIt) {
  for (const std::uint64_t n : {1U, 17U, 64U}) {
    EXPECT_EQ(run({.fail_completion = n}).errors, 1U);
    EXPECT_EQ(run({.fail_completion = n, .fail_from_then_on = true}).errors, blocks - n + 1);
  }
  EXPECT_EQ(run({.fail_completion = 65}).errors, 0U);  // a loop over n ends here
  EXPECT_EQ(run({.fail_submit = 1}).faults, 1U);
  EXPECT_EQ(run({.fail_submit = 2}).faults, 0U);
}

TEST(FaultyDevice, ASubmitThatFailsTakesNothing) {
  MemoryDevice memory(std::vector<std::vector<std::byte>>(1, std::vector<std::byte>(block)));
  FaultyDevice device(memory, {.fail_submit = 1});
  auto arena = Arena::reserve(block).value();
  const IoRequest request{.buffer = arena.span(), .tag = 4};
  EXPECT_FALSE(device.submit(std::span(&request, 1)));
  std::array<IoCompletion, 1> out;
  EXPECT_EQ(device.wait(out, Nanos::max()), 0U);
  ASSERT_TRUE(device.submit(std::span(&request, 1)));
  EXPECT_EQ(device.wait(out, Nanos::max()), 1U);
  EXPECT_EQ(out[0].tag, 4U);
  EXPECT_EQ(device.submits(), 2U);
  EXPECT_EQ(device.completions(), 1U);
}

// Writes 64 blocks, each of its own value, through the plan; returns what is there afterwards.
std::vector<std::byte> write_all(const FaultPlan& plan, std::uint64_t& faults) {
  MemoryDevice memory({std::vector<std::byte>(blocks * block)});
  FaultyDevice device(memory, plan);
  auto arena = Arena::reserve(blocks * block).value();
  std::vector<std::array<std::span<std::byte>, 2>> pieces(blocks / 2);
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const auto part = arena.span().subspan(i * block, block);
    std::ranges::fill(part, static_cast<std::byte>(i + 1));
    pieces[i / 2][i % 2] = part;
  }
  std::vector<IoRequest> requests;
  for (std::uint64_t i = 0; i < blocks / 2; ++i) {
    requests.push_back({.op = IoOp::write, .offset = i * 2 * block, .pieces = pieces[i], .tag = i});
  }
  EXPECT_TRUE(device.submit(requests));
  std::array<IoCompletion, 8> some;
  std::uint64_t ended = 0;
  while (const std::size_t count = device.wait(some, Nanos::max())) {
    for (const auto& done : std::span(some).first(count)) {
      EXPECT_TRUE(done.status);
      EXPECT_EQ(done.bytes, 2 * block);
    }
    ended += count;
  }
  EXPECT_EQ(ended, blocks / 2);
  faults = device.faults();
  const IoRequest all{.buffer = arena.span()};
  EXPECT_TRUE(memory.submit(std::span(&all, 1)));
  EXPECT_EQ(memory.poll(some), 1U);
  return {arena.span().begin(), arena.span().end()};
}

TEST(FaultyDevice, WritesAreLostTornOrElsewhereAndCalledGood) {
  std::uint64_t faults = 0;
  const auto good = write_all({}, faults);
  EXPECT_EQ(faults, 0U);
  for (const FaultPlan& plan :
       {FaultPlan{.lost_rate = 0.2}, FaultPlan{.torn_rate = 0.2, .hold_max = 3}, FaultPlan{.misdirect_rate = 0.2}}) {
    EXPECT_NE(write_all(plan, faults), good);
    EXPECT_GT(faults, 0U);
    EXPECT_LT(faults, blocks / 2);
  }
}

}  // namespace
}  // namespace artesian
