// CRC32C (Castagnoli), the checksum of everything that the store keeps on flash. Pure; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace artesian {

// Of `bytes`; to go on behind other bytes, `so_far` is what came out for those.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t so_far = 0);

}  // namespace artesian
