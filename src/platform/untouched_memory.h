// Memory that this process has allocated and not touched yet: it costs nothing now, and may be wanted at any moment. An
// inference engine allocates its KV cache and compute buffers long before it fills them.
//
// What was reserved with MAP_NORESERVE does not count (nobody promised to use all of it), nor do the stacks of threads.
// Threads: any.
#pragma once

#include <cstdint>
#include <string_view>

namespace artesian {

// From the text of /proc/self/smaps; mappings that make no sense count as nothing.
std::uint64_t untouched_bytes(std::string_view smaps);

// Of this process. Takes a fraction of a millisecond, more where a lot is mapped: not for every token.
std::uint64_t untouched_bytes();

}  // namespace artesian
