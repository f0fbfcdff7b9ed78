#include "platform/machine.h"

#include <gtest/gtest.h>
#include <sys/utsname.h>

namespace artesian {
namespace {

TEST(Machine, IsKnown) {
  const MachineFacts facts = machine_facts();
  EXPECT_FALSE(facts.processor.empty());
  EXPECT_FALSE(facts.processor.starts_with(':'));
  EXPECT_GT(facts.cores, 0U);
  EXPECT_GT(facts.memory_bytes, 0U);
  utsname system{};
  ASSERT_EQ(::uname(&system), 0);
  EXPECT_TRUE(facts.kernel.ends_with(system.release)) << facts.kernel;
  EXPECT_NE(to_text(facts).find(system.release), std::string::npos);
}

TEST(Machine, StorageNamesTheFileSystem) {
  EXPECT_EQ(storage_of("/proc/self/status").file_system, "proc");
  EXPECT_TRUE(storage_of("/proc").device.empty());
  const StorageFacts nowhere = storage_of("/no/such/file");
  EXPECT_TRUE(nowhere.file_system.empty());
  EXPECT_EQ(to_text(nowhere), "not known");
  EXPECT_EQ(to_text(StorageFacts{.file_system = "ext4", .device = "/dev/sda1", .model = ""}), "ext4, /dev/sda1");
}

}  // namespace
}  // namespace artesian
