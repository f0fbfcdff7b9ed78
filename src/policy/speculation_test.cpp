#include "policy/speculation.h"

#include <gtest/gtest.h>

namespace artesian {
namespace {

constexpr std::uint64_t expert = 1'000'000;

// So many guesses of which `useful` in every ten are right.
void guess(SpeculationGate& gate, std::size_t layer, int count, int useful) {
  for (int i = 0; i < count; ++i)
    gate.record(layer, i % 10 < useful ? GuessOutcome::useful : GuessOutcome::wasted, expert);
}

void steps(SpeculationGate& gate, int count) {
  for (int i = 0; i < count; ++i) gate.on_step();
}

TEST(Speculation, StaysOpenWhereGuessesAreRight) {
  SpeculationGate gate(2);
  EXPECT_TRUE(gate.open(0));
  guess(gate, 0, 1000, 8);
  EXPECT_TRUE(gate.open(0));
}

TEST(Speculation, ClosesAfterOneWindowOfWaste) {
  SpeculationGate gate(2);
  guess(gate, 0, 63, 1);
  EXPECT_TRUE(gate.open(0));
  guess(gate, 0, 1, 0);
  EXPECT_FALSE(gate.open(0));
  EXPECT_TRUE(gate.open(1));  // the neighbour's is its own
}

TEST(Speculation, BetweenTheBarsAnOpenGateStaysOpenAndATrialFails) {
  // 36 % right: gain = 0.36 - 0.5 * 0.64 = 0.04, between 0 and 0.1.
  const auto between = [](SpeculationGate& gate) {
    for (int i = 0; i < 64; ++i) gate.record(0, i % 64 < 23 ? GuessOutcome::useful : GuessOutcome::wasted, expert);
  };
  SpeculationGate open(1);
  guess(open, 0, 64, 9);
  between(open);
  EXPECT_TRUE(open.open(0));
  SpeculationGate trial(1);
  between(trial);
  EXPECT_FALSE(trial.open(0));
}

TEST(Speculation, TriesAgainAndWaitsLongerEachTime) {
  SpeculationGate gate(1);
  guess(gate, 0, 64, 0);
  steps(gate, 255);
  EXPECT_FALSE(gate.open(0));
  steps(gate, 1);
  EXPECT_TRUE(gate.open(0));
  guess(gate, 0, 64, 0);
  steps(gate, 511);
  EXPECT_FALSE(gate.open(0));
  steps(gate, 1);
  EXPECT_TRUE(gate.open(0));
  guess(gate, 0, 64, 9);
  steps(gate, 10'000);
  EXPECT_TRUE(gate.open(0));
  guess(gate, 0, 64, 0);  // patience is as at first
  steps(gate, 256);
  EXPECT_TRUE(gate.open(0));
}

TEST(Speculation, TheWaitHasABound) {
  SpeculationGate gate(1);
  for (int i = 0; i < 20; ++i) {
    guess(gate, 0, 64, 0);
    steps(gate, 16'384);
    EXPECT_TRUE(gate.open(0)) << i;
  }
}

TEST(Speculation, LateGuessesPayHalf) {
  SpeculationGate gate(1);
  for (int i = 0; i < 64; ++i) gate.record(0, i % 2 == 0 ? GuessOutcome::late : GuessOutcome::wasted, expert);
  EXPECT_FALSE(gate.open(0));  // half of them late: what they spare is what the others waste
  SpeculationGate better(1);
  for (int i = 0; i < 64; ++i) better.record(0, i % 4 != 0 ? GuessOutcome::late : GuessOutcome::wasted, expert);
  EXPECT_TRUE(better.open(0));
}

TEST(Speculation, CountsEverythingAlsoWhatArrivesAfterClosing) {
  SpeculationGate gate(2);
  guess(gate, 0, 64, 0);
  gate.record(0, GuessOutcome::useful, 5);
  gate.record(1, GuessOutcome::late, 7);
  EXPECT_FALSE(gate.open(0));
  EXPECT_EQ(gate.counts(0).guesses, 65U);
  EXPECT_EQ(gate.counts(0).useful_bytes, 5U);
  const SpeculationCounts sum = gate.total();
  EXPECT_EQ(sum.guesses, 66U);
  EXPECT_EQ(sum.late_bytes, 7U);
  EXPECT_EQ(sum.wasted_bytes, 64 * expert);
}

}  // namespace
}  // namespace artesian
