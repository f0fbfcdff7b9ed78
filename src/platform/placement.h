// How a drive is told which written bytes belong together, so that they end their lives together: by write streams of
// the block device (kernels from 6.16 on), or by NVMe commands that name a placement of Flexible Data Placement. Files
// of a file system have neither.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "platform/file.h"
#include "platform/nvme.h"

namespace artesian {

struct DrivePlacement {
  std::uint16_t write_streams = 0;        // numbered from 1 on; 0: none
  std::optional<NvmeNamespace> nvme;      // with placements; not where there are write streams
  std::vector<std::uint16_t> placements;  // identifiers
  std::uint32_t block_bytes = 0;          // of the namespace
  std::uint64_t command_bytes_max = 0;    // moved by one command
  std::string what;                       // "8 write streams", or why there is nothing

  bool any() const { return write_streams > 0 || nvme; }
  // Of `handle` (1 on); places are shared where the drive has fewer of them.
  std::uint8_t stream_of(std::uint16_t handle) const;
  std::uint16_t placement_of(std::uint16_t handle) const;
};

// What sysfs says of a block device, in its folder.
struct BlockDeviceFacts {
  std::string name;
  bool partition = false;
  std::uint64_t write_streams = 0, command_bytes_max = 0, block_bytes = 0;
};
BlockDeviceFacts read_block_device_facts(const std::string& folder);

DrivePlacement probe_placement(const File& file);

}  // namespace artesian
