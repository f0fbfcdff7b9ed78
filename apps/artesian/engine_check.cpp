#include "engine_check.h"

#include "platform/elf_file.h"

namespace artesian::cli {
namespace {

// Stripped of its symbols, ggml still has the message of its assertion.
bool holds_ggml(const std::string& path, bool look_for_text) {
  if (elf_defines(path, "ggml_backend_").value_or(false) || elf_defines(path, "ggml_init").value_or(false)) return true;
  return look_for_text && file_contains(path, "GGML_ASSERT(%s) failed").value_or(false);
}

}  // namespace

GgmlUse find_ggml(const std::string& program, std::string_view ld_library_path) {
  const auto libraries = linked_libraries(program, ld_library_path);
  if (!libraries) return {};  // a script, or a file that the system will refuse in its own words
  for (const auto& library : *libraries) {
    if (library.name.starts_with("libggml-base.so")) return {GgmlLinkage::shared, library.path};
  }
  if (holds_ggml(program, true)) return {GgmlLinkage::statically, program};
  for (const auto& library : *libraries) {
    if (!library.path.empty() && holds_ggml(library.path, false)) return {GgmlLinkage::statically, library.path};
  }
  return {};
}

}  // namespace artesian::cli
