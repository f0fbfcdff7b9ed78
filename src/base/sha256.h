// SHA-256, for digests that nobody may be able to make collide. Pure; safe from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "base/result.h"

namespace artesian {

using Sha256 = std::array<std::byte, 32>;

// device_failed if the library cannot (out of memory, or a configuration that forbids it).
Result<Sha256> sha256(std::span<const std::byte> bytes);

}  // namespace artesian
