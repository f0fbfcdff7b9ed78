#include "platform/placement.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/units.h"

namespace artesian {
namespace {

// A queue's number; 0 where there is none.
std::uint64_t number_in(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::uint64_t number = 0;
  stream >> number;
  return number;
}

// Stream numbers have eight bits in a request.
constexpr std::uint64_t streams_max = 255;
// The kernel does not cut a command that comes as it is.
constexpr std::uint64_t command_bytes_limit = 1 * MiB;

}  // namespace

std::uint8_t DrivePlacement::stream_of(std::uint16_t handle) const {
  if (handle == 0 || write_streams == 0) return 0;
  return static_cast<std::uint8_t>((handle - 1U) % write_streams + 1U);
}

std::uint16_t DrivePlacement::placement_of(std::uint16_t handle) const {
  return placements[(handle - 1U) % placements.size()];
}

BlockDeviceFacts read_block_device_facts(const std::string& folder) {
  BlockDeviceFacts facts;
  std::error_code error;
  const std::filesystem::path device = std::filesystem::canonical(folder, error);
  if (error) return facts;
  facts.name = device.filename();
  facts.partition = std::filesystem::exists(device / "partition", error);
  const auto queue = (facts.partition ? device.parent_path() : device) / "queue";
  facts.write_streams = number_in(queue / "max_write_streams");
  facts.command_bytes_max = number_in(queue / "max_hw_sectors_kb") * KiB;
  facts.block_bytes = number_in(queue / "logical_block_size");
  return facts;
}

DrivePlacement probe_placement(const File& file) {
  DrivePlacement found;
  struct stat info{};
  if (::fstat(file.fd(), &info) != 0 || !S_ISBLK(info.st_mode)) {
    found.what = "no placement: a file of a file system";
    return found;
  }
  const auto facts =
      read_block_device_facts(fmt::format("/sys/dev/block/{}:{}", major(info.st_rdev), minor(info.st_rdev)));
  if (facts.write_streams > 0) {
    found.write_streams = static_cast<std::uint16_t>(std::min(facts.write_streams, streams_max));
    found.what = fmt::format("{} write streams", found.write_streams);
    return found;
  }
  // A command as it is knows nothing of partitions.
  if (facts.partition || facts.block_bytes == 0) {
    found.what = fmt::format("no placement: {} has no write streams", facts.name);
    return found;
  }
  auto nvme = NvmeNamespace::open(facts.name);
  auto placements = nvme ? nvme->placements() : fail(std::move(nvme.error()));
  if (!placements || placements->empty()) {
    found.what = "no placement: " + (placements ? facts.name + " has no handles" : placements.error().message);
    return found;
  }
  found.nvme = std::move(*nvme);
  found.placements = std::move(*placements);
  found.block_bytes = static_cast<std::uint32_t>(facts.block_bytes);
  found.command_bytes_max = std::min(std::max<std::uint64_t>(facts.command_bytes_max, 4 * KiB), command_bytes_limit);
  found.what = fmt::format("{} placements of NVMe commands", found.placements.size());
  return found;
}

}  // namespace artesian
