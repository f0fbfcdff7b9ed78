#include "policy/speculation.h"

#include <algorithm>

namespace artesian {

namespace {

void add(SpeculationCounts& counts, GuessOutcome outcome, std::uint64_t bytes) {
  ++counts.guesses;
  switch (outcome) {
    case GuessOutcome::useful:
      ++counts.useful, counts.useful_bytes += bytes;
      break;
    case GuessOutcome::late:
      ++counts.late, counts.late_bytes += bytes;
      break;
    case GuessOutcome::wasted:
      ++counts.wasted, counts.wasted_bytes += bytes;
      break;
  }
}

// A late guess has spared a part of its wait.
double gain(const SpeculationCounts& counts, double late_weight, double wasted_weight) {
  const double read = static_cast<double>(counts.useful_bytes + counts.late_bytes + counts.wasted_bytes);
  if (read == 0) return 0;
  return (static_cast<double>(counts.useful_bytes) + late_weight * static_cast<double>(counts.late_bytes) -
          wasted_weight * static_cast<double>(counts.wasted_bytes)) /
         read;
}

}  // namespace

SpeculationGate::SpeculationGate(std::size_t layers, SpeculationSettings settings)
    : settings_(settings), layers_(layers) {
  for (Layer& layer : layers_) layer.retry_steps = settings_.retry_steps_first;
}

void SpeculationGate::record(std::size_t layer, GuessOutcome outcome, std::uint64_t bytes) {
  Layer& it = layers_[layer];
  add(it.total, outcome, bytes);
  if (it.state == State::closed) return;  // what was under way when the gate closed
  add(it.window, outcome, bytes);
  if (it.window.guesses >= settings_.window_guesses) judge(it);
}

void SpeculationGate::judge(Layer& layer) {
  const double verdict = gain(layer.window, settings_.late_weight, settings_.wasted_weight);
  layer.window = {};
  const double bar = layer.state == State::open ? settings_.off_below : settings_.on_above;
  if (verdict >= bar) {
    layer.state = State::open;
    layer.retry_steps = settings_.retry_steps_first;
    return;
  }
  if (layer.state == State::trial && layer.closed_steps > 0) {
    layer.retry_steps = std::min(layer.retry_steps, settings_.retry_steps_max / 2) * 2;
  }
  layer.state = State::closed;
  layer.closed_steps = 0;
}

void SpeculationGate::on_step() {
  for (Layer& layer : layers_) {
    if (layer.state == State::closed && ++layer.closed_steps >= layer.retry_steps) layer.state = State::trial;
  }
}

SpeculationCounts SpeculationGate::total() const {
  SpeculationCounts sum;
  for (const Layer& layer : layers_) {
    sum.guesses += layer.total.guesses;
    sum.useful += layer.total.useful;
    sum.late += layer.total.late;
    sum.wasted += layer.total.wasted;
    sum.useful_bytes += layer.total.useful_bytes;
    sum.late_bytes += layer.total.late_bytes;
    sum.wasted_bytes += layer.total.wasted_bytes;
  }
  return sum;
}

}  // namespace artesian
