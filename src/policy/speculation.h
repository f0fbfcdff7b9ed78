// Whether to read the next layer's experts on a guess. Guesses pay when the bytes they save outweigh the bytes they
// waste (which use the device's idle time, and wear and heat it for nothing); where they do not, a layer's gate closes,
// and opens for a short trial now and then. Pure; not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace artesian {

enum class GuessOutcome : std::uint8_t {
  useful,  // arrived before the router chose it, and it did
  late,    // chosen, but still on its way: the wait was shorter, the read was no waste
  wasted,  // arrived, not chosen
};

struct SpeculationCounts {
  std::uint64_t guesses = 0, useful = 0, late = 0, wasted = 0;
  std::uint64_t useful_bytes = 0, late_bytes = 0, wasted_bytes = 0;
};

struct SpeculationSettings {
  std::uint32_t window_guesses = 64;      // a verdict takes so many outcomes
  double late_weight = 0.5;               // what a byte of a late guess is worth, against a useful one
  double wasted_weight = 0.5;             // what a wasted byte costs, against a useful byte saved
  double off_below = 0.0;                 // gain per byte read (1 best, -wasted_weight worst) below which a gate closes
  double on_above = 0.1;                  // and above which a trial opens it again; the gap is the hysteresis
  std::uint32_t retry_steps_first = 256;  // steps closed before a trial; doubles with every trial that fails
  std::uint32_t retry_steps_max = 16'384;
};

class SpeculationGate {
 public:
  explicit SpeculationGate(std::size_t layers, SpeculationSettings settings = {});

  // Whether guesses for this layer may be read now. Gates begin on trial, which counts as open.
  bool open(std::size_t layer) const { return layers_[layer].state != State::closed; }

  // Once for every guess that was read, when its fate is known. Guesses dropped before their read began are not
  // reported.
  void record(std::size_t layer, GuessOutcome outcome, std::uint64_t bytes);

  // Once a decode step.
  void on_step();

  const SpeculationCounts& counts(std::size_t layer) const { return layers_[layer].total; }
  SpeculationCounts total() const;

 private:
  enum class State : std::uint8_t { trial, open, closed };
  struct Layer {
    State state = State::trial;
    SpeculationCounts total;
    SpeculationCounts window;  // outcomes since the last verdict
    std::uint32_t retry_steps = 0;
    std::uint32_t closed_steps = 0;
  };

  void judge(Layer& layer);

  SpeculationSettings settings_;
  std::vector<Layer> layers_;
};

}  // namespace artesian
