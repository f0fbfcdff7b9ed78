// What a measurement was taken on: processor, memory, kernel, and the file system and the drive under a file. For
// reports alone: what the system does not say is empty or 0. Safe from any thread.
#pragma once

#include <cstdint>
#include <string>

namespace artesian {

struct MachineFacts {
  std::string processor;  // "AMD EPYC 9R14"
  unsigned cores = 0;     // that this process may use
  std::uint64_t memory_bytes = 0;
  std::string kernel;  // "Linux 6.1.0-18-amd64"
};
MachineFacts machine_facts();

struct StorageFacts {
  std::string file_system;  // "ext4"
  std::string device;       // "/dev/nvme0n1p2"
  std::string model;        // of the drive: "Samsung SSD 990 PRO 2TB"
};
// Of a file, a folder or a block device.
StorageFacts storage_of(const std::string& path);

std::string to_text(const MachineFacts& machine);  // one line
std::string to_text(const StorageFacts& storage);  // one line

}  // namespace artesian
