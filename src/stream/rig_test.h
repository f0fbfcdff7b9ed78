// What tests of the stream stand on: a model whose bytes are random, and a loader that brings them in from a device in
// memory, with faults.
#pragma once

#include <cstddef>
#include <random>
#include <vector>

#include "base/clock.h"
#include "device/faulty_device.h"
#include "device/memory_device.h"
#include "format/gguf_model.h"
#include "platform/arena.h"
#include "stream/loader.h"
#include "stream/plan.h"

namespace artesian::stream_test {

struct World {
  GgufModel model;
  WeightPlan plan;
  std::vector<std::byte> bytes;  // of the model's one file
  ManualClock clock;

  void fill(std::uint64_t file_bytes, unsigned seed) {
    bytes.resize(file_bytes);
    std::mt19937 random(seed);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  }
};

struct Rig {
  MemoryDevice memory;
  FaultyDevice device;
  Arena arena;
  Loader loader;

  Rig(const World& world, FaultPlan faults)
      : memory({world.bytes}, {.queue_depth_max = 3}),
        device(memory, faults),
        arena(std::move(*Arena::reserve(world.plan.arena_bytes))),
        loader(std::move(*Loader::create(device, world.clock))) {}
};

}  // namespace artesian::stream_test
