// The NVMe commands of data placement (Flexible Data Placement, NVMe 2.1), as io_uring and ioctl take them: a write
// that names where its bytes belong, and the question which places there are. Numbers of blocks are of the namespace's
// format.
//
// Threads: pure, but for NvmeNamespace, whose functions may be called by one thread at a time. Little-endian machines.
#pragma once

#include <linux/nvme_ioctl.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace artesian {

// Write of `memory` (whole blocks, at most 65,536) at block `lba`, directive "data placement".
nvme_uring_cmd nvme_placed_write(std::uint32_t nsid, std::uint64_t lba, std::uint32_t block_bytes,
                                 std::span<const std::byte> memory, std::uint16_t placement);

// I/O management receive: reclaim unit handle status, as much of it as `into` holds (a multiple of 4 bytes).
nvme_uring_cmd nvme_reclaim_unit_status(std::uint32_t nsid, std::span<std::byte> into);

// The placement identifiers that such a status names, in its order; corrupt if it promises more than it holds.
Result<std::vector<std::uint16_t>> read_reclaim_unit_status(std::span<const std::byte> status);

// A whole namespace by its character device ("/dev/ng0n1"), which takes commands as they are.
class NvmeNamespace {
 public:
  // `name` is that of the block device ("nvme0n1"). rejected where there is no character device or it may not be
  // opened.
  static Result<NvmeNamespace> open(const std::string& name);
  NvmeNamespace(NvmeNamespace&& other) noexcept;
  NvmeNamespace& operator=(NvmeNamespace&& other) noexcept;
  ~NvmeNamespace();

  int fd() const { return fd_; }
  std::uint32_t nsid() const { return nsid_; }
  // None, with the reason, where the namespace has no data placement.
  Result<std::vector<std::uint16_t>> placements() const;

 private:
  NvmeNamespace() = default;
  std::string path_;
  int fd_ = -1;
  std::uint32_t nsid_ = 0;
};

}  // namespace artesian
