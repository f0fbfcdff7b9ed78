#include "platform/memory_limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/units.h"

namespace artesian {
namespace {

// A recorded tree of /proc and /sys, deleted at the end.
class MemoryLimit : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() /
            fmt::format("artesian-memory-{}-{}", ::getpid(),
                        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(root_);
    write("/proc/meminfo",
          "MemTotal:       16384000 kB\nMemFree:         1000000 kB\nMemAvailable:   12000000 kB\n"
          "Active(file):     300000 kB\nInactive(file):   200000 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    const auto whole = root_.string() + path;
    std::filesystem::create_directories(std::filesystem::path(whole).parent_path());
    std::ofstream(whole) << text;
  }
  MemoryFacts read() {
    MemoryWatch watch(root_.string());
    auto facts = watch.read();
    EXPECT_TRUE(facts) << (facts ? "" : facts.error().message);
    return facts.value_or(MemoryFacts{});
  }
  // As in a Debian 12 machine with a container's group, version 1.
  void write_v1(const std::string& group) {
    write("/proc/self/cgroup", "9:name=systemd:/\n4:cpuset,memory:" + group + "\n0::/\n");
    write("/proc/self/mountinfo",
          "33 24 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n"
          "39 33 0:34 / /sys/fs/cgroup/cpuset,memory rw,nosuid shared:15 - cgroup cgroup rw,cpuset,memory\n");
  }
  void write_v2(const std::string& group) {
    write("/proc/self/cgroup", "0::" + group + "\n");
    write("/proc/self/mountinfo", "29 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  void write_v2_group(const std::string& group, const std::string& max, const std::string& high, std::uint64_t current,
                      std::uint64_t file) {
    const std::string folder = "/sys/fs/cgroup" + group;
    write(folder + "/memory.max", max + "\n");
    write(folder + "/memory.high", high + "\n");
    write(folder + "/memory.current", std::to_string(current) + "\n");
    write(folder + "/memory.stat",
          fmt::format("anon 1000\nfile {}\nkernel 0\nactive_file {}\ninactive_file 0\n", file, file));
  }

  std::filesystem::path root_;
};

TEST_F(MemoryLimit, WithoutGroupsTheMachineIsTheLimit) {
  const auto facts = read();
  EXPECT_EQ(facts.limit, 16384000 * KiB);
  EXPECT_EQ(facts.limit_source, "memory of the machine");
  EXPECT_EQ(facts.unreclaimable, 4384000 * KiB);
  EXPECT_EQ(facts.file_bytes, 500000 * KiB);
  EXPECT_EQ(facts.available, 12000000 * KiB);
  EXPECT_EQ(facts.headroom(), 12000000 * KiB);
  EXPECT_EQ(facts.psi_some, 0);
}

TEST_F(MemoryLimit, Version1CountsWhatCannotBeDropped) {
  write_v1("/box");
  const std::string folder = "/sys/fs/cgroup/cpuset,memory/box";
  write(folder + "/memory.limit_in_bytes", "900000000\n");
  write(folder + "/memory.usage_in_bytes", "700000000\n");
  write(folder + "/memory.stat",
        "cache 1\nrss 2\nhierarchical_memory_limit 900000000\ntotal_cache 600000000\ntotal_rss 90000000\n"
        "total_shmem 10000000\ntotal_mapped_file 5\ntotal_inactive_file 400000000\ntotal_active_file 190000000\n");
  const auto facts = read();
  EXPECT_EQ(facts.limit, 900000000u);
  EXPECT_EQ(facts.limit_source, "memory limit of the control group /box (memory.limit_in_bytes)");
  EXPECT_EQ(facts.file_bytes, 590000000u);
  EXPECT_EQ(facts.unreclaimable, 110000000u);
  EXPECT_EQ(facts.headroom(), 790000000u);
}

TEST_F(MemoryLimit, Version1KnowsLimitsOfAncestorsOutOfSight) {
  // The mount's top is the container's own group, so the path in /proc/self/cgroup is not below the mount.
  write("/proc/self/cgroup", "4:memory:/docker/abc\n");
  write("/proc/self/mountinfo", "39 33 0:34 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "50000000\n");
  write("/sys/fs/cgroup/memory/memory.stat", "hierarchical_memory_limit 300000000\ntotal_rss 40000000\n");
  const auto facts = read();
  EXPECT_EQ(facts.limit, 300000000u);
  EXPECT_EQ(facts.limit_source, "memory limit of the control group / (hierarchical_memory_limit)");
  EXPECT_EQ(facts.unreclaimable, 50000000u);
}

TEST_F(MemoryLimit, Version1WithoutLimitIsTheMachine) {
  write_v1("/");
  write("/sys/fs/cgroup/cpuset,memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(read().limit_source, "memory of the machine");
}

TEST_F(MemoryLimit, Version2TakesTheLowerOfMaxAndHigh) {
  write_v2("/user.slice");
  write_v2_group("/user.slice", "900000000", "800000000", 500000000, 300000000);
  write("/sys/fs/cgroup/user.slice/memory.pressure",
        "some avg10=12.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=3.25 avg60=0.00 avg300=0.00 total=1\n");
  const auto facts = read();
  EXPECT_EQ(facts.limit, 800000000u);
  EXPECT_EQ(facts.limit_source, "memory limit of the control group /user.slice (memory.high)");
  EXPECT_EQ(facts.unreclaimable, 200000000u);
  EXPECT_EQ(facts.file_bytes, 300000000u);
  EXPECT_EQ(facts.psi_some, 12.5);
  EXPECT_EQ(facts.psi_full, 3.25);
}

TEST_F(MemoryLimit, Version2NestedTakesTheLevelWithTheLeastRoom) {
  write_v2("/a/b/c");
  write_v2_group("/a", "2000000000", "max", 1900000000, 100000000);  // 200 MB left: siblings hold the rest
  write_v2_group("/a/b", "max", "max", 600000000, 0);
  write_v2_group("/a/b/c", "1000000000", "max", 500000000, 0);
  auto facts = read();
  EXPECT_EQ(facts.limit, 2000000000u);
  EXPECT_EQ(facts.headroom(), 200000000u);
  write_v2_group("/a/b", "650000000", "max", 600000000, 0);
  facts = read();
  EXPECT_EQ(facts.limit_source, "memory limit of the control group /a/b (memory.max)");
  EXPECT_EQ(facts.headroom(), 50000000u);
}

TEST_F(MemoryLimit, AvailableBoundsTheHeadroom) {
  write_v2("/a");
  write_v2_group("/a", "15000000000", "max", 1000, 0);
  EXPECT_EQ(read().headroom(), 12000000 * KiB);
}

TEST_F(MemoryLimit, ReadsAgainWhatChangedAndFollowsTheProcess) {
  write_v2("/a");
  write_v2_group("/a", "1000000000", "max", 100000000, 0);
  write_v2_group("/b", "700000000", "max", 100000000, 0);
  MemoryWatch watch(root_.string());
  EXPECT_EQ(watch.read().value().limit, 1000000000u);
  write("/sys/fs/cgroup/a/memory.max", "800000000\n");
  EXPECT_EQ(watch.read().value().limit, 800000000u);
  write("/proc/self/cgroup", "0::/b\n");
  EXPECT_EQ(watch.read().value().limit, 700000000u);
}

TEST_F(MemoryLimit, HybridTakesTheControllerWhereItIsNamed) {
  write("/proc/self/cgroup", "0::/unified\n5:memory:/box\n");
  write("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "400000000\n");
  EXPECT_EQ(read().limit, 400000000u);  // without mountinfo the usual folders are tried
}

TEST_F(MemoryLimit, GarbageCountsAsAbsent) {
  write_v2("/a");
  for (const std::string& text : std::vector<std::string>{"", "\n", "lots", "-5", "12x", "99999999999999999999999999",
                                                          "max max", std::string(5000, '7')}) {
    write_v2_group("/a", text, text, 0, 0);
    write("/sys/fs/cgroup/a/memory.current", text);
    write("/sys/fs/cgroup/a/memory.stat", text);
    write("/sys/fs/cgroup/a/memory.pressure", "some avg10=" + text + "\nfull\n");
    const auto facts = read();
    EXPECT_EQ(facts.limit_source, "memory of the machine") << text;
    EXPECT_EQ(facts.psi_full, 0);
  }
  for (const std::string& text :
       std::vector<std::string>{"", ":", "::", "0::", "x:y", "0::/../../up", std::string("0::/\0a", 6)}) {
    write("/proc/self/cgroup", text);
    EXPECT_EQ(read().limit_source, "memory of the machine") << text;
  }
  write("/proc/self/cgroup", "4:memory:/x\n");
  write("/proc/self/mountinfo", " - \n1 2 3 - cgroup\n - cgroup cgroup memory\n");
  EXPECT_EQ(read().limit_source, "memory of the machine");
}

TEST_F(MemoryLimit, NothingAtAllIsAnError) {
  MemoryWatch watch("/nonexistent-artesian");
  const auto facts = watch.read();
  ASSERT_FALSE(facts);
  EXPECT_EQ(facts.error().message, "/nonexistent-artesian/proc/meminfo: cannot be read");
}

TEST(MemoryLimitHere, ThisMachineHasALimit) {
  MemoryWatch watch;
  const auto facts = watch.read();
  ASSERT_TRUE(facts);
  EXPECT_GT(facts->limit, 16 * MiB);
  EXPECT_FALSE(facts->limit_source.empty());
}

}  // namespace
}  // namespace artesian
