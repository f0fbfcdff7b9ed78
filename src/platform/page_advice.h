// What the kernel should do with the pages of a mapped file. All of it is best effort and changes no byte. Addresses
// are widened to whole pages. Goes to the kernel directly: the preload shim, where it is loaded, does not see these
// calls. Threads: any.
#pragma once

#include <cstddef>
#include <span>

namespace artesian {

// Single pages are touched here: a page fault reads no neighbours.
void advise_random(std::span<const std::byte> memory);

// Will be used soon: the reads begin now, nobody waits for them.
void advise_soon(std::span<const std::byte> memory);

// Pages stay in memory once they are there; false where the process's limit for locked memory does not allow it.
bool keep_resident(std::span<const std::byte> memory);

}  // namespace artesian
