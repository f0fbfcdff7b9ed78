#include "platform/elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <glob.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <deque>
#include <fstream>
#include <set>
#include <span>

namespace artesian {
namespace {

constexpr std::size_t max_libraries = 4096;  // a program with more is not one
constexpr std::uint64_t max_table_bytes = 256ULL << 20;

class File {
 public:
  static Result<File> open(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
      return fail(errno == ENOENT ? Code::not_found : Code::device_failed, "{}: {}", path, strerror(errno));
    }
    File file(path, fd);
    struct stat info{};
    if (::fstat(fd, &info) != 0) return fail(Code::device_failed, "{}: {}", path, strerror(errno));
    if (!S_ISREG(info.st_mode)) return fail(Code::invalid, "{}: is not a file", path);
    file.size_ = static_cast<std::uint64_t>(info.st_size);
    return file;
  }
  File(File&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}
  File& operator=(File&&) = delete;
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }

  Status read(std::uint64_t offset, std::span<std::byte> out) const {
    if (offset > size_ || out.size() > size_ - offset) {
      return fail(Code::corrupt, "{}: offset {}: {} bytes reach past the end of the file", path_, offset, out.size());
    }
    while (!out.empty()) {
      const ssize_t got = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return fail(Code::device_failed, "{}: offset {}: cannot be read", path_, offset);
      out = out.subspan(static_cast<std::size_t>(got));
      offset += static_cast<std::uint64_t>(got);
    }
    return {};
  }

  template <typename T>
  Result<T> read_one(std::uint64_t offset) const {
    T value{};
    if (auto ok = read(offset, std::as_writable_bytes(std::span(&value, 1))); !ok) return fail(ok.error());
    return value;
  }

  template <typename T>
  Result<std::vector<T>> read_table(std::uint64_t offset, std::uint64_t bytes) const {
    if (offset > size_ || bytes > size_ - offset || bytes > max_table_bytes) {
      return fail(Code::corrupt, "{}: offset {}: a table of {} bytes is not in the file", path_, offset, bytes);
    }
    std::vector<T> table(static_cast<std::size_t>(bytes / sizeof(T)));
    if (auto ok = read(offset, std::as_writable_bytes(std::span(table))); !ok) return fail(ok.error());
    return table;
  }

 private:
  File(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

std::string_view string_at(std::span<const char> table, std::uint64_t offset) {
  if (offset >= table.size()) return {};
  const auto rest = table.subspan(static_cast<std::size_t>(offset));
  return {rest.data(), ::strnlen(rest.data(), rest.size())};
}

Result<Elf64_Ehdr> read_header(const File& file) {
  const auto not_elf = [&] { return fail(Code::invalid, "{}: is not a 64-bit ELF program", file.path()); };
  if (file.size() < sizeof(Elf64_Ehdr)) return not_elf();
  auto header = file.read_one<Elf64_Ehdr>(0);
  if (!header) return header;
  constexpr auto order = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
  if (::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_ident[EI_DATA] != order) {
    return not_elf();
  }
  return header;
}

// Folders of a search list, with what the loader replaces replaced.
std::vector<std::string> split_folders(std::string_view list, std::string_view separators, const std::string& origin) {
  std::vector<std::string> folders;
  while (!list.empty()) {
    const auto end = list.find_first_of(separators);
    std::string folder(list.substr(0, end));
    for (const std::string_view token : {"${ORIGIN}", "$ORIGIN"}) {
      for (auto at = folder.find(token); at != std::string::npos; at = folder.find(token)) {
        folder.replace(at, token.size(), origin);
      }
    }
    for (const std::string_view token : {"${LIB}", "$LIB"}) {
      for (auto at = folder.find(token); at != std::string::npos; at = folder.find(token)) {
        folder.replace(at, token.size(), "lib");
      }
    }
    if (!folder.empty()) folders.push_back(std::move(folder));
    if (end == std::string_view::npos) break;
    list.remove_prefix(end + 1);
  }
  return folders;
}

std::string folder_of(const std::string& path) {
  std::string real = path;
  if (char* resolved = ::realpath(path.c_str(), nullptr); resolved != nullptr) {
    real = resolved;
    ::free(resolved);
  }
  const auto slash = real.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : real.substr(0, slash);
}

// Where in the file an address of the loaded program lies.
std::uint64_t file_offset(std::span<const Elf64_Phdr> segments, std::uint64_t address) {
  for (const auto& segment : segments) {
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz) {
      return segment.p_offset + (address - segment.p_vaddr);
    }
  }
  return UINT64_MAX;
}

Status read_dynamic(const File& file, std::span<const Elf64_Phdr> segments, const Elf64_Phdr& dynamic,
                    ElfFacts& facts) {
  auto entries = file.read_table<Elf64_Dyn>(dynamic.p_offset, dynamic.p_filesz);
  if (!entries) return fail(entries.error());
  std::uint64_t strings_at = UINT64_MAX, strings_bytes = 0;
  for (const auto& entry : *entries) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_STRTAB) strings_at = file_offset(segments, entry.d_un.d_ptr);
    if (entry.d_tag == DT_STRSZ) strings_bytes = entry.d_un.d_val;
  }
  auto strings = file.read_table<char>(strings_at, strings_bytes);
  if (!strings) return fail(strings.error());
  const std::string origin = folder_of(file.path());
  for (const auto& entry : *entries) {
    if (entry.d_tag == DT_NULL) break;
    const auto text = string_at(*strings, entry.d_un.d_val);
    if (entry.d_tag == DT_NEEDED && !text.empty()) facts.needed.emplace_back(text);
    if (entry.d_tag == DT_RPATH) facts.rpath = split_folders(text, ":", origin);
    if (entry.d_tag == DT_RUNPATH) facts.runpath = split_folders(text, ":", origin);
  }
  return {};
}

void read_loader_config(const std::string& path, std::vector<std::string>& folders, int depth) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    line.resize(std::min(line.find('#'), line.size()));
    const auto begin = line.find_first_not_of(" \t");
    if (begin == std::string::npos) continue;
    line = line.substr(begin, line.find_last_not_of(" \t") + 1 - begin);
    if (!line.starts_with("include")) {
      folders.push_back(line);
    } else if (depth < 4) {
      glob_t found{};
      const auto pattern = line.substr(std::min(line.find_first_not_of(" \t", 7), line.size()));
      if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
        for (std::size_t i = 0; i < found.gl_pathc; ++i) read_loader_config(found.gl_pathv[i], folders, depth + 1);
      }
      ::globfree(&found);
    }
  }
}

std::vector<std::string> system_folders() {
  std::vector<std::string> folders;
  read_loader_config("/etc/ld.so.conf", folders, 0);
  for (const char* folder : {"/lib64", "/usr/lib64", "/lib", "/usr/lib"}) folders.emplace_back(folder);
  return folders;
}

std::string find_library(const std::string& name, std::span<const std::vector<std::string>* const> lists) {
  const auto is_elf = [](const std::string& path) { return ::access(path.c_str(), R_OK) == 0 && read_elf(path); };
  if (name.find('/') != std::string::npos) return is_elf(name) ? name : std::string();
  for (const auto* list : lists) {
    for (const auto& folder : *list) {
      std::string path = folder + "/" + name;
      if (is_elf(path)) return path;
    }
  }
  return {};
}

}  // namespace

Result<ElfFacts> read_elf(const std::string& path) {
  auto file = File::open(path);
  if (!file) return fail(file.error());
  auto header = read_header(*file);
  if (!header) return fail(header.error());
  ElfFacts facts;
  if (header->e_phnum == 0 || header->e_phentsize != sizeof(Elf64_Phdr)) return facts;
  auto segments = file->read_table<Elf64_Phdr>(header->e_phoff, std::uint64_t{header->e_phnum} * sizeof(Elf64_Phdr));
  if (!segments) return fail(segments.error());
  for (const auto& segment : *segments) {
    if (segment.p_type != PT_DYNAMIC) continue;
    facts.dynamic = true;
    if (auto ok = read_dynamic(*file, *segments, segment, facts); !ok) return fail(ok.error());
  }
  return facts;
}

Result<std::vector<LinkedLibrary>> linked_libraries(const std::string& program, std::string_view ld_library_path) {
  struct Pending {
    std::string name;
    std::vector<std::string> rpath, runpath;  // RPATH is inherited along the chain of needs, RUNPATH is not
  };
  const auto system = system_folders();
  const auto from_environment = split_folders(ld_library_path, ":;", folder_of(program));
  std::vector<LinkedLibrary> libraries;
  std::set<std::string> seen;
  std::deque<Pending> pending;
  const auto push_needs = [&](const ElfFacts& facts, std::vector<std::string> inherited) {
    std::vector<std::string> rpath = facts.runpath.empty() ? facts.rpath : std::vector<std::string>();
    rpath.insert(rpath.end(), inherited.begin(), inherited.end());
    for (const auto& name : facts.needed) {
      if (seen.insert(name).second) pending.push_back({name, rpath, facts.runpath});
    }
  };
  auto facts = read_elf(program);
  if (!facts) return fail(facts.error());
  push_needs(*facts, {});
  while (!pending.empty() && libraries.size() < max_libraries) {
    const Pending next = std::move(pending.front());
    pending.pop_front();
    const std::vector<std::string>* lists[] = {&next.rpath, &from_environment, &next.runpath, &system};
    std::string path = find_library(next.name, lists);
    if (!path.empty()) {
      if (auto own = read_elf(path); own) push_needs(*own, next.rpath);
    }
    libraries.push_back({next.name, std::move(path)});
  }
  return libraries;
}

Result<bool> elf_defines(const std::string& path, std::string_view prefix) {
  auto file = File::open(path);
  if (!file) return fail(file.error());
  auto header = read_header(*file);
  if (!header) return fail(header.error());
  if (header->e_shnum == 0 || header->e_shentsize != sizeof(Elf64_Shdr)) return false;
  auto sections = file->read_table<Elf64_Shdr>(header->e_shoff, std::uint64_t{header->e_shnum} * sizeof(Elf64_Shdr));
  if (!sections) return fail(sections.error());
  for (const auto& section : *sections) {
    if (section.sh_type != SHT_SYMTAB && section.sh_type != SHT_DYNSYM) continue;
    if (section.sh_link >= sections->size()) continue;
    const auto& names = (*sections)[section.sh_link];
    auto symbols = file->read_table<Elf64_Sym>(section.sh_offset, section.sh_size);
    if (!symbols) return fail(symbols.error());
    auto strings = file->read_table<char>(names.sh_offset, names.sh_size);
    if (!strings) return fail(strings.error());
    for (const auto& symbol : *symbols) {
      if (symbol.st_shndx != SHN_UNDEF && string_at(*strings, symbol.st_name).starts_with(prefix)) return true;
    }
  }
  return false;
}

Result<bool> file_contains(const std::string& path, std::string_view text) {
  auto file = File::open(path);
  if (!file) return fail(file.error());
  constexpr std::uint64_t step = 1ULL << 20;
  std::vector<char> chunk(static_cast<std::size_t>(step) + text.size());
  for (std::uint64_t offset = 0; offset < file->size(); offset += step) {
    const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(chunk.size(), file->size() - offset));
    if (auto ok = file->read(offset, std::as_writable_bytes(std::span(chunk).first(bytes))); !ok)
      return fail(ok.error());
    if (::memmem(chunk.data(), bytes, text.data(), text.size()) != nullptr) return true;
  }
  return false;
}

}  // namespace artesian
