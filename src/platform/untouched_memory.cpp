#include "platform/untouched_memory.h"

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

namespace artesian {
namespace {

constexpr std::uint64_t guard_bytes_max = 64U << 10;

struct Mapping {
  std::uint64_t begin = 0, end = 0;
  bool writable = false, none = false, anonymous = false, no_reserve = false;
  std::uint64_t resident = 0;
};

class Counter {
 public:
  void line(const std::string& text) {
    Mapping next;
    char rights[8] = {};
    unsigned long begin = 0, end = 0, inode = 0, size = 0;
    if (std::sscanf(text.c_str(), "%lx-%lx %7s %*x %*s %lu", &begin, &end, rights, &inode) == 4) {
      close();
      next = {.begin = begin,
              .end = end,
              .writable = rights[1] == 'w' && rights[3] == 'p',
              .none = rights[0] == '-' && rights[1] == '-',
              .anonymous = inode == 0};
      below_ = std::exchange(mapping_, next);
    } else if (std::sscanf(text.c_str(), "Rss: %lu kB", &size) == 1) {
      mapping_.resident = std::uint64_t{size} << 10;
    } else if (text.starts_with("VmFlags:")) {
      mapping_.no_reserve = text.find(" nr") != std::string::npos;
      mapping_.anonymous = mapping_.anonymous && text.find(" gd") == std::string::npos;  // the first thread's stack
    }
  }

  std::uint64_t total() {
    close();
    mapping_ = {};
    return total_;
  }

 private:
  void close() {
    const std::uint64_t bytes = mapping_.end > mapping_.begin ? mapping_.end - mapping_.begin : 0;
    const bool stack = below_.none && below_.end == mapping_.begin && below_.end - below_.begin <= guard_bytes_max;
    if (!mapping_.writable || !mapping_.anonymous || mapping_.no_reserve || stack) return;
    if (bytes > mapping_.resident) total_ += bytes - mapping_.resident;
  }

  Mapping mapping_, below_;
  std::uint64_t total_ = 0;
};

std::uint64_t count(std::istream& lines) {
  Counter counter;
  for (std::string line; std::getline(lines, line);) counter.line(line);
  return counter.total();
}

}  // namespace

std::uint64_t untouched_bytes(std::string_view smaps) {
  std::istringstream lines{std::string(smaps)};
  return count(lines);
}

std::uint64_t untouched_bytes() {
  std::ifstream lines("/proc/self/smaps");
  return count(lines);
}

}  // namespace artesian
