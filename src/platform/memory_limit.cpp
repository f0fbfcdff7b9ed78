#include "platform/memory_limit.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace artesian {
namespace {

constexpr std::uint64_t no_limit = 1ULL << 62;  // version 1 says "none" with a number close to 2^63

// A small text file that is read again and again.
class KeptFile {
 public:
  KeptFile() = default;
  explicit KeptFile(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  KeptFile(KeptFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  KeptFile& operator=(KeptFile&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~KeptFile() {
    if (fd_ >= 0) ::close(fd_);
  }

  // Empty if it cannot be read.
  std::string read() const {
    std::string text;
    constexpr std::size_t step = 8192, most = 1U << 20;
    while (fd_ >= 0 && text.size() < most) {
      const std::size_t before = text.size();
      text.resize(before + step);
      const ssize_t got = ::pread(fd_, text.data() + before, step, static_cast<off_t>(before));
      text.resize(before + (got > 0 ? static_cast<std::size_t>(got) : 0));
      if (got <= 0) break;
    }
    return text;
  }

 private:
  int fd_ = -1;
};

std::optional<std::uint64_t> parse_number(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> parse_limit(std::string_view text) {
  const auto value = parse_number(text);
  return value && *value < no_limit ? value : std::nullopt;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const auto end = text.find(separator);
    if (end != 0) parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return parts;
}

// The number after `key` at the start of a line: "anon 4096", "MemTotal:  123 kB" (the caller knows the unit).
std::optional<std::uint64_t> find_value(std::string_view text, std::string_view key) {
  for (const auto line : split(text, '\n')) {
    if (!line.starts_with(key)) continue;
    auto rest = line.substr(key.size());
    if (rest.empty() || (rest[0] != ' ' && rest[0] != ':' && rest[0] != '\t')) continue;
    rest.remove_prefix(std::min(rest.find_first_not_of(": \t"), rest.size()));
    return parse_number(rest.substr(0, rest.find_first_of(" \t")));
  }
  return std::nullopt;
}

double find_pressure(std::string_view text, std::string_view kind) {
  for (const auto line : split(text, '\n')) {
    constexpr std::string_view key = "avg10=";
    if (!line.starts_with(kind)) continue;
    const auto at = line.find(key);
    if (at == std::string_view::npos) continue;
    double value = 0;
    const auto rest = line.substr(at + key.size());
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error == std::errc{} && value >= 0 && value <= 100) return value;
  }
  return 0;
}

// Where a controller's files are seen, and which group is at that mount's top.
struct Mount {
  std::string point, top;
};

struct Place {
  bool version2 = false;
  std::string group;  // as /proc/self/cgroup has it
  Mount mount;
};

std::optional<Mount> find_mount(std::string_view mountinfo, bool version2) {
  for (const auto line : split(mountinfo, '\n')) {
    const auto dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const auto before = split(line.substr(0, dash), ' ');
    const auto after = split(line.substr(dash + 3), ' ');
    if (before.size() < 5 || after.size() < 3) continue;
    if (version2 && after[0] != "cgroup2") continue;
    if (!version2) {
      const auto options = split(after[2], ',');
      if (after[0] != "cgroup" || std::find(options.begin(), options.end(), "memory") == options.end()) continue;
    }
    return Mount{std::string(before[4]), std::string(before[3])};
  }
  return std::nullopt;
}

// "4:memory:/path" is version 1, "0::/path" version 2; where both are there, the memory controller is where it is
// named.
std::optional<Place> find_place(std::string_view cgroup, std::string_view mountinfo) {
  std::optional<Place> place;
  for (const auto line : split(cgroup, '\n')) {
    const auto first = line.find(':');
    const auto second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const auto names = line.substr(first + 1, second - first - 1);
    const auto controllers = split(names, ',');
    const bool version1 = std::find(controllers.begin(), controllers.end(), "memory") != controllers.end();
    if (!version1 && !(names.empty() && line.starts_with("0:") && !place)) continue;
    place = Place{!version1, std::string(line.substr(second + 1)), {}};
    if (version1) break;
  }
  if (!place) return place;
  const auto mount = find_mount(mountinfo, place->version2);
  place->mount = mount ? *mount : Mount{place->version2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory", "/"};
  return place;
}

// The group's path below the mount. In a container the mount's top is the container's own group.
std::string below_mount(const Place& place) {
  std::string group = place.group == "/" ? "" : place.group;
  if (group.find("..") != std::string::npos) return "";  // outside what this namespace sees
  const std::string& top = place.mount.top;
  if (top.size() > 1 && group.starts_with(top) && (group.size() == top.size() || group[top.size()] == '/')) {
    group.erase(0, top.size());
  }
  return group;
}

// One control group on the way from ours to the top.
struct Level {
  bool version2;
  std::string name;
  KeptFile limit, high, usage, stat;

  Level(bool is_version2, const std::string& folder, std::string group)
      : version2(is_version2), name(std::move(group)) {
    limit = KeptFile(folder + (version2 ? "/memory.max" : "/memory.limit_in_bytes"));
    if (version2) high = KeptFile(folder + "/memory.high");
    usage = KeptFile(folder + (version2 ? "/memory.current" : "/memory.usage_in_bytes"));
    stat = KeptFile(folder + "/memory.stat");
  }
};

struct LevelFacts {
  std::uint64_t limit, unreclaimable, locked, file_bytes;
  std::string_view limit_file;
};

// What the kernel can drop: file pages on its lists (neither locked ones nor shared memory, which are counted as files
// too).
LevelFacts usage_of(const Level& level, const std::string& stat) {
  const auto value = [&](std::string_view key) { return find_value(stat, key).value_or(0); };
  LevelFacts facts{};
  std::uint64_t droppable = 0;
  std::uint64_t held = 0;
  if (level.version2) {
    facts.locked = value("unevictable");
    facts.file_bytes = value("active_file") + value("inactive_file");
    droppable = facts.file_bytes + value("slab_reclaimable");
    held = value("anon") + value("shmem") + (value("kernel") != 0 ? value("kernel") : value("slab"));
  } else {
    facts.locked = value("total_unevictable");
    facts.file_bytes = value("total_active_file") + value("total_inactive_file");
    droppable = facts.file_bytes;
    held = value("total_rss") + value("total_shmem");
  }
  const auto usage = parse_number(level.usage.read());
  facts.unreclaimable = held;
  // The counters lag behind each other by some pages: never below what is certainly held.
  if (usage && *usage > droppable) facts.unreclaimable = std::max(held, *usage - droppable);
  return facts;
}

std::optional<LevelFacts> read_level(const Level& level) {
  std::optional<std::uint64_t> limit = parse_limit(level.limit.read());
  std::string_view file = level.version2 ? "memory.max" : "memory.limit_in_bytes";
  const std::string stat = level.stat.read();
  const auto lower = [&](std::optional<std::uint64_t> other, std::string_view name) {
    if (!other || (limit && *other >= *limit)) return;
    limit = other;
    file = name;
  };
  if (level.version2) {
    lower(parse_limit(level.high.read()), "memory.high");
  } else {
    const auto above = find_value(stat, "hierarchical_memory_limit");  // counts ancestors that are out of sight
    if (above && *above < no_limit) lower(above, "hierarchical_memory_limit");
  }
  if (!limit) return std::nullopt;
  LevelFacts facts = usage_of(level, stat);
  facts.limit = *limit;
  facts.limit_file = file;
  return facts;
}

std::uint64_t room_of(std::uint64_t limit, std::uint64_t taken) {
  return limit > taken ? limit - taken : 0;
}

}  // namespace

struct MemoryWatch::State {
  std::string root;
  KeptFile cgroup, meminfo, pressure;
  std::string cgroup_text;
  bool followed = false;
  std::vector<Level> levels;  // ours first

  void follow() {
    std::string text = cgroup.read();
    if (followed && text == cgroup_text) return;
    followed = true;
    cgroup_text = std::move(text);
    levels.clear();
    pressure = KeptFile(root + "/proc/pressure/memory");
    const auto place = find_place(cgroup_text, KeptFile(root + "/proc/self/mountinfo").read());
    if (!place) return;
    const std::string mount = root + place->mount.point;
    std::string group = below_mount(*place);
    if (place->version2) {
      if (KeptFile own(mount + group + "/memory.pressure"); !own.read().empty()) pressure = std::move(own);
    }
    while (true) {
      levels.emplace_back(place->version2, mount + group, group.empty() ? "/" : group);
      if (group.empty()) break;
      const auto slash = group.rfind('/');
      group.resize(slash == std::string::npos ? 0 : slash);
    }
  }
};

MemoryWatch::MemoryWatch(std::string root) : state_(std::make_unique<State>()) {
  state_->root = std::move(root);
  state_->cgroup = KeptFile(state_->root + "/proc/self/cgroup");
  state_->meminfo = KeptFile(state_->root + "/proc/meminfo");
}
MemoryWatch::MemoryWatch(MemoryWatch&&) noexcept = default;
MemoryWatch& MemoryWatch::operator=(MemoryWatch&&) noexcept = default;
MemoryWatch::~MemoryWatch() = default;

Result<MemoryFacts> MemoryWatch::read() {
  state_->follow();
  MemoryFacts facts;
  const std::string machine = state_->meminfo.read();
  const std::uint64_t total = find_value(machine, "MemTotal").value_or(0) << 10;
  const std::uint64_t free = find_value(machine, "MemFree").value_or(0) << 10;
  const auto available = find_value(machine, "MemAvailable");
  facts.available = std::min(total, available ? *available << 10 : free);
  bool limited = false;
  for (const auto& level : state_->levels) {
    const auto found = read_level(level);
    if (!found) continue;
    if (limited && room_of(found->limit, found->unreclaimable) >= room_of(facts.limit, facts.unreclaimable)) continue;
    limited = true;
    facts.limit = found->limit;
    facts.unreclaimable = found->unreclaimable;
    facts.locked = found->locked;
    facts.file_bytes = found->file_bytes;
    facts.limit_source = fmt::format("memory limit of the control group {} ({})", level.name, found->limit_file);
  }
  if (total == 0 && !limited) return fail(Code::device_failed, "{}/proc/meminfo: cannot be read", state_->root);
  // Without a readable machine the group's limit is all there is to go by.
  if (total == 0) facts.available = room_of(facts.limit, facts.unreclaimable);
  // A limit above what the machine has limits nothing.
  if (total != 0 && (!limited || facts.limit >= total)) {
    facts.limit = total;
    facts.unreclaimable = total - facts.available;
    facts.locked = find_value(machine, "Mlocked").value_or(0) << 10;
    facts.file_bytes =
        (find_value(machine, "Active(file)").value_or(0) + find_value(machine, "Inactive(file)").value_or(0)) << 10;
    facts.limit_source = "memory of the machine";
  }
  const std::string pressure = state_->pressure.read();
  facts.psi_some = find_pressure(pressure, "some");
  facts.psi_full = find_pressure(pressure, "full");
  return facts;
}

}  // namespace artesian
