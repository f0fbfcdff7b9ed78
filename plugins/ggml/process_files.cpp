// What this process has open and mapped, from /proc: how the door learns which file a pointer of the engine's is in.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>

#include "door.h"

namespace artesian::ggml {
namespace {

bool begins_as_gguf(int fd) {
  struct stat facts{};
  if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) return false;
  std::array<char, 4> magic{};
  if (pread(fd, magic.data(), magic.size(), 0) == 4) return std::memcmp(magic.data(), "GGUF", 4) == 0;
  // Opened for direct reads: four bytes at an odd address are refused; look again through a descriptor of our own.
  const int again = open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_RDONLY | O_CLOEXEC);
  if (again < 0) return false;
  const bool gguf = pread(again, magic.data(), magic.size(), 0) == 4 && std::memcmp(magic.data(), "GGUF", 4) == 0;
  close(again);
  return gguf;
}

std::string identity(const struct stat& facts) {
  return fmt::format("{}:{}:{}:{}.{}", facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtim.tv_sec,
                     facts.st_mtim.tv_nsec);
}

// Goes through the files that are mapped, until one of them is it.
template <typename Predicate>
bool find_mapped(Predicate is_it) {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (std::getline(maps, line)) {
    unsigned long start = 0, end = 0, offset = 0, inode = 0;
    int path_at = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %*s %lx %*s %lu %n", &start, &end, &offset, &inode, &path_at) < 4) continue;
    if (inode == 0) continue;
    const MappedFile mapped{.path = line.substr(static_cast<std::size_t>(path_at)),
                            .offset = offset,
                            .mapping = {reinterpret_cast<const std::byte*>(start), end - start},
                            .mapping_offset = offset};
    if (is_it(mapped)) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> open_gguf_files() {
  std::vector<std::string> paths;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), closedir);
  if (folder == nullptr) return paths;
  while (const dirent* entry = readdir(folder.get())) {
    const int fd = std::atoi(entry->d_name);
    if (fd < 3 || (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0 || !begins_as_gguf(fd)) continue;
    std::array<char, 4096> target{};
    const ssize_t length = readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), target.data(), target.size());
    if (length <= 0 || length >= static_cast<ssize_t>(target.size())) continue;
    std::string path(target.data(), static_cast<std::size_t>(length));
    if (std::ranges::find(paths, path) == paths.end()) paths.push_back(std::move(path));
  }
  return paths;
}

std::string file_identity(const std::string& path) {
  struct stat facts{};
  return stat(path.c_str(), &facts) == 0 ? identity(facts) : "";
}

std::string file_identity(int fd) {
  struct stat facts{};
  return fstat(fd, &facts) == 0 ? identity(facts) : "";
}

std::optional<MappedFile> find_mapping(const void* address) {
  std::optional<MappedFile> found;
  find_mapped([&](const MappedFile& mapped) {
    const auto distance = reinterpret_cast<std::uintptr_t>(address) -
                          reinterpret_cast<std::uintptr_t>(mapped.mapping.data());  // wraps around for one above
    if (distance >= mapped.mapping.size()) return false;
    found = mapped;
    found->offset += distance;
    return true;
  });
  return found;
}

bool is_mapped(const std::string& path) {
  return find_mapped([&](const MappedFile& mapped) { return mapped.path == path; });
}

}  // namespace artesian::ggml
