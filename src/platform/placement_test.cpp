#include "platform/placement.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/units.h"
#include "platform/process.h"

namespace artesian {
namespace {

namespace fs = std::filesystem;

class PlacementTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_ + "/nvme0n1/queue"); }
  void TearDown() override { fs::remove_all(folder_); }
  void put(const std::string& name, std::string_view text) { std::ofstream(folder_ + "/" + name) << text << "\n"; }

  const std::string folder_ = testing::TempDir() + fmt::format("artesian-placement-{}", own_pid());
};

TEST_F(PlacementTest, AQueueIsReadForItsPartitionsToo) {
  put("nvme0n1/queue/max_write_streams", "8");
  put("nvme0n1/queue/max_hw_sectors_kb", "128");
  put("nvme0n1/queue/logical_block_size", "4096");
  fs::create_directories(folder_ + "/nvme0n1/nvme0n1p2");
  put("nvme0n1/nvme0n1p2/partition", "2");
  const auto whole = read_block_device_facts(folder_ + "/nvme0n1");
  EXPECT_EQ(whole.name, "nvme0n1");
  EXPECT_FALSE(whole.partition);
  EXPECT_EQ(whole.write_streams, 8U);
  EXPECT_EQ(whole.command_bytes_max, 128 * KiB);
  EXPECT_EQ(whole.block_bytes, 4096U);
  const auto part = read_block_device_facts(folder_ + "/nvme0n1/nvme0n1p2");
  EXPECT_TRUE(part.partition);
  EXPECT_EQ(part.write_streams, 8U);
}

TEST_F(PlacementTest, AnOlderKernelHasNoStreams) {
  EXPECT_EQ(read_block_device_facts(folder_ + "/nvme0n1").write_streams, 0U);
  EXPECT_EQ(read_block_device_facts(folder_ + "/gone").name, "");
}

TEST_F(PlacementTest, HandlesShareWhatThereIs) {
  DrivePlacement placement;
  EXPECT_EQ(placement.stream_of(3), 0);  // a drive without
  placement.write_streams = 2;
  EXPECT_EQ(placement.stream_of(0), 0);  // no hint
  EXPECT_EQ(placement.stream_of(1), 1);
  EXPECT_EQ(placement.stream_of(2), 2);
  EXPECT_EQ(placement.stream_of(3), 1);
  placement.placements = {7, 9};
  EXPECT_EQ(placement.placement_of(1), 7);
  EXPECT_EQ(placement.placement_of(4), 9);
}

TEST_F(PlacementTest, AFileHasNone) {
  put("file", "");
  const auto found = probe_placement(File::open(folder_ + "/file", {.write = true}).value());
  EXPECT_FALSE(found.any());
  EXPECT_EQ(found.what, "no placement: a file of a file system");
}

// Whatever drives there are: an answer, with a reason where it is no.
TEST_F(PlacementTest, BlockDevicesAnswer) {
  for (const auto& entry : fs::directory_iterator("/sys/class/block")) {
    const auto file = File::open("/dev/" + entry.path().filename().string(), {});
    if (!file || !file->block_device()) continue;
    const auto found = probe_placement(*file);
    EXPECT_FALSE(found.what.empty());
    EXPECT_EQ(found.any(), !found.what.starts_with("no placement: ")) << found.what;
  }
}

}  // namespace
}  // namespace artesian
