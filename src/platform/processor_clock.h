// Processor time of the whole process: what work costs, whoever else is on the machine. Safe from any thread.
#pragma once

#include <ctime>

#include "base/clock.h"

namespace artesian {

class ProcessorClock final : public Clock {
 public:
  Nanos now() const override { return Nanos(std::clock() * (1'000'000'000 / CLOCKS_PER_SEC)); }
};

}  // namespace artesian
