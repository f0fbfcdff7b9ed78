// What an ELF program is linked with: its needed libraries, found the way the dynamic loader finds them (RPATH,
// RUNPATH, $ORIGIN, LD_LIBRARY_PATH, the system's folders), and the symbols that a file defines. Files are read as
// hostile: every offset is checked. Stateless; safe from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace artesian {

struct ElfFacts {
  std::vector<std::string> needed;   // DT_NEEDED, in order
  std::vector<std::string> rpath;    // folders, $ORIGIN replaced
  std::vector<std::string> runpath;  // likewise
  bool dynamic = false;              // has a dynamic section
};

// Code::invalid for a file that is no 64-bit ELF of this machine's byte order (a script, for example).
Result<ElfFacts> read_elf(const std::string& path);

struct LinkedLibrary {
  std::string name;  // as needed: "libggml-base.so.0"
  std::string path;  // empty if it was not found
};

// The program's libraries and theirs, in the order in which the loader would load them.
Result<std::vector<LinkedLibrary>> linked_libraries(const std::string& program, std::string_view ld_library_path);

// Whether the file defines a symbol whose name starts with `prefix`.
Result<bool> elf_defines(const std::string& path, std::string_view prefix);

// Whether the bytes of `text` are anywhere in the file.
Result<bool> file_contains(const std::string& path, std::string_view text);

}  // namespace artesian
