#include "platform/machine.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "base/units.h"

namespace artesian {
namespace {

std::string trimmed(std::string text) {
  const auto first = text.find_first_not_of(" \t\n");
  const auto last = text.find_last_not_of(" \t\n");
  return first == std::string::npos ? std::string() : text.substr(first, last - first + 1);
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return trimmed(line);
}

// The rest of the first line that begins with `key`.
std::string value_of(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return trimmed(line.substr(key.size()));
  }
  return {};
}

// The type of the mounted file system with this device number: "36 35 98:0 /root /mnt opts [tags...] - ext4 /dev/x
// ...".
std::string mounted_type(const std::string& number) {
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string id, parent, device;
    words >> id >> parent >> device;
    const auto dash = line.find(" - ");
    if (device != number || dash == std::string::npos) continue;
    std::string type;
    std::istringstream(line.substr(dash + 3)) >> type;
    return type;
  }
  return {};
}

std::string joined(std::initializer_list<std::string> parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
  }
  return text.empty() ? "not known" : text;
}

}  // namespace

MachineFacts machine_facts() {
  MachineFacts facts;
  utsname system{};
  if (::uname(&system) == 0) facts.kernel = fmt::format("{} {}", system.sysname, system.release);
  facts.processor = value_of("/proc/cpuinfo", "model name");
  if (facts.processor.starts_with(':')) facts.processor = trimmed(facts.processor.substr(1));
  if (facts.processor.empty()) facts.processor = system.machine;
  facts.cores = std::thread::hardware_concurrency();
  const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) facts.memory_bytes = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page);
  return facts;
}

StorageFacts storage_of(const std::string& path) {
  StorageFacts facts;
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return facts;
  const dev_t device = S_ISBLK(info.st_mode) ? info.st_rdev : info.st_dev;
  const std::string number = fmt::format("{}:{}", major(device), minor(device));
  if (!S_ISBLK(info.st_mode)) facts.file_system = mounted_type(number);
  const std::string folder = "/sys/dev/block/" + number;
  const std::string name = value_of(folder + "/uevent", "DEVNAME=");
  if (!name.empty()) facts.device = "/dev/" + name;
  facts.model = first_line(folder + "/device/model");
  if (facts.model.empty()) facts.model = first_line(folder + "/../device/model");  // of the drive of a partition
  return facts;
}

std::string to_text(const MachineFacts& machine) {
  return joined({machine.processor, fmt::format("{} {}", machine.cores, machine.cores == 1 ? "core" : "cores"),
                 machine.memory_bytes == 0 ? "" : format_size(machine.memory_bytes) + " of memory", machine.kernel});
}

std::string to_text(const StorageFacts& storage) {
  return joined({storage.file_system, storage.device, storage.model});
}

}  // namespace artesian
