// Random bytes from the operating system, for identities and secrets. Safe from any thread.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"

namespace artesian {

Status random_bytes(std::span<std::byte> out);

}  // namespace artesian
