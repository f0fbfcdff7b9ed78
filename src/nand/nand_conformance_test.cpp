// The simulated SSD behaves as every Device does.
#include "device/device_conformance.h"
#include "nand/nand_device.h"

namespace artesian {
namespace {

using nand::NandDevice;
using nand::Profile;

// A few megabytes of flash, of everything a little.
Profile small_drive(Limits limits, bool coarse) {
  Profile p;
  p.name = "small";
  p.title = "small";
  p.channels = 2;
  p.dies_per_channel = 2;
  p.planes_per_die = 2;
  p.read_lanes_per_die = 2;
  p.blocks_per_plane = 24;
  p.wordlines_per_block = 4;
  p.bits_per_cell = 3;
  p.read_us = {40, 45, 50};
  p.page_bytes = 16384;
  p.map_unit_bytes = coarse ? 16384 : 4096;
  p.capacity_bytes = 12 * MiB;
  p.collect_below = 3;
  p.queue_depth = limits.depth;
  p.buffer_bytes = 1 * MiB;
  p.power_loss_protection = !coarse;
  if (coarse) {
    p.compress_grain = 2048;
    p.stripe_dies = 2;
  }
  return p;
}

class NandRig final : public Rig {
 public:
  NandRig(const Content& content, Limits limits, bool coarse) {
    std::vector<std::uint64_t> sizes;
    for (const auto& bytes : content) sizes.push_back(bytes.size());
    auto device = NandDevice::open(
        small_drive(limits, coarse), sizes, clock_,
        {.queue_max = limits.queue_max, .writable = limits.writable, .files = {{.compress = 2}, {.compress = 1.3}}});
    EXPECT_TRUE(device) << device.error().message;
    device_ = std::move(*device);
    for (FileIndex file = 0; file < content.size(); ++file) EXPECT_TRUE(device_->preload(file, 0, content[file]));
  }
  Device& device() override { return *device_; }
  void close() override { device_.reset(); }
  Nanos now() const override { return clock_.now(); }
  void shrink(FileIndex file, std::uint64_t bytes) override { device_->shrink(file, bytes); }
  bool virtual_time() const override { return true; }

 private:
  ManualClock clock_;
  std::unique_ptr<NandDevice> device_;
};

template <bool coarse>
std::unique_ptr<Rig> make_nand(const Content& content, Limits limits) {
  return std::make_unique<NandRig>(content, limits, coarse);
}

constexpr Kind kinds[] = {
    {"nand", make_nand<false>},
    {"nand_coarse_map_no_plp", make_nand<true>},
};

INSTANTIATE_TEST_SUITE_P(Nand, DeviceConformance, testing::ValuesIn(kinds),
                         [](const auto& which) { return which.param.name; });

}  // namespace
}  // namespace artesian
