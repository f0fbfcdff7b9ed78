// The conformance suite over the devices of this room. A new device is one more row in `kinds`.
#include "device/device_conformance.h"

#include <stdlib.h>
#include <unistd.h>

#include "device/faulty_device.h"
#include "device/file_device.h"
#include "device/memory_device.h"
#include "device/power_cut_device.h"
#include "device/sim_device.h"
#include "platform/clock.h"
#include "platform/file.h"

namespace artesian {
namespace {

class FileRig final : public Rig {
 public:
  FileRig(IoBackend backend, DirectIo direct, const Content& content, Limits limits) {
    FileDeviceOptions options{.write = limits.writable,
                              .backend = backend,
                              .direct = direct,
                              .queue_depth_max = limits.depth,
                              .queue_max = limits.queue_max,
                              .wakeable = true,
                              .report = {}};
    for (const auto& bytes : content) {
      std::string path = testing::TempDir() + "artesian-conformance-XXXXXX";
      const int fd = ::mkstemp(path.data());
      ::close(fd);
      const auto file = File::open(path, {.write = true});
      EXPECT_TRUE(file && file->write(0, bytes));
      options.paths.push_back(path);
    }
    paths_ = options.paths;
    auto device = open_file_device(options, clock_);
    EXPECT_TRUE(device) << device.error().message;
    device_ = std::move(*device);
  }
  ~FileRig() override {
    device_.reset();
    for (const auto& path : paths_) ::unlink(path.c_str());
  }
  Device& device() override { return *device_; }
  void close() override { device_.reset(); }
  Nanos now() const override { return clock_.now(); }
  void shrink(FileIndex file, std::uint64_t bytes) override {
    ASSERT_EQ(::truncate(paths_[file].c_str(), static_cast<off_t>(bytes)), 0);
  }

 private:
  SteadyClock clock_;
  std::vector<std::string> paths_;
  std::unique_ptr<Device> device_;
};

class MemoryRig : public Rig {
 public:
  MemoryRig(const Content& content, Limits limits)
      : memory_(std::make_unique<MemoryDevice>(
            content, MemoryDeviceOptions{.queue_depth_max = limits.depth, .queue_max = limits.queue_max})) {}
  Device& device() override { return *memory_; }
  void close() override { memory_.reset(); }
  Nanos now() const override { return clock_.now(); }
  void shrink(FileIndex file, std::uint64_t bytes) override { memory_->shrink(file, bytes); }

 protected:
  SteadyClock clock_;
  std::unique_ptr<MemoryDevice> memory_;
};

class FaultyRig final : public MemoryRig {
 public:
  FaultyRig(const Content& content, Limits limits)
      : MemoryRig(content, limits), faulty_(std::make_unique<FaultyDevice>(*memory_, FaultPlan{})) {}
  Device& device() override { return *faulty_; }
  void close() override { faulty_.reset(); }

 private:
  std::unique_ptr<FaultyDevice> faulty_;
};

class PowerCutRig final : public Rig {
 public:
  PowerCutRig(const Content& content, Limits limits)
      : device_(std::make_unique<PowerCutDevice>(
            content, 0, MemoryDeviceOptions{.queue_depth_max = limits.depth, .queue_max = limits.queue_max})) {}
  Device& device() override { return *device_; }
  void close() override { device_.reset(); }
  Nanos now() const override { return clock_.now(); }
  void shrink(FileIndex file, std::uint64_t bytes) override { device_->shrink(file, bytes); }

 private:
  SteadyClock clock_;
  std::unique_ptr<PowerCutDevice> device_;
};

class SimRig final : public Rig {
 public:
  SimRig(const Content& content, Limits limits) {
    auto memory = std::make_unique<MemoryDevice>(content);
    memory_ = memory.get();
    device_ = std::make_unique<SimDevice>(std::move(memory), clock_,
                                          SimDrive{.queue_depth_max = limits.depth, .queue_max = limits.queue_max});
  }
  Device& device() override { return *device_; }
  void close() override { device_.reset(); }
  Nanos now() const override { return clock_.now(); }
  bool virtual_time() const override { return true; }
  void shrink(FileIndex file, std::uint64_t bytes) override { memory_->shrink(file, bytes); }

 private:
  ManualClock clock_;
  MemoryDevice* memory_ = nullptr;
  std::unique_ptr<SimDevice> device_;
};

template <IoBackend backend, DirectIo direct>
std::unique_ptr<Rig> make_file_rig(const Content& content, Limits limits) {
  return std::make_unique<FileRig>(backend, direct, content, limits);
}

template <typename AnyRig>
std::unique_ptr<Rig> make_rig(const Content& content, Limits limits) {
  return std::make_unique<AnyRig>(content, limits);
}

constexpr Kind kinds[] = {
    {"file_uring", make_file_rig<IoBackend::uring, DirectIo::automatic>},
    {"file_uring_cached", make_file_rig<IoBackend::uring, DirectIo::off>},
    {"file_threads", make_file_rig<IoBackend::threads, DirectIo::automatic>},
    {"file_threads_cached", make_file_rig<IoBackend::threads, DirectIo::off>},
    {"memory", make_rig<MemoryRig>},
    {"faulty_without_faults", make_rig<FaultyRig>},
    {"power_cut", make_rig<PowerCutRig>},
    {"sim", make_rig<SimRig>},
};

INSTANTIATE_TEST_SUITE_P(All, DeviceConformance, testing::ValuesIn(kinds),
                         [](const auto& which) { return which.param.name; });

}  // namespace
}  // namespace artesian
