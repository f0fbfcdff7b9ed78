// Which program of llama.cpp is there, and how it uses ggml, seen from its file alone: the door can only be opened
// where ggml is a shared library.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "commands.h"

namespace artesian::cli {

enum class GgmlLinkage {
  shared,      // libggml-base is among its libraries
  statically,  // ggml is inside it or inside one of its libraries
  none,        // no trace of it: a script, or a program that loads it later
};

struct GgmlUse {
  GgmlLinkage linkage = GgmlLinkage::none;
  std::string file;  // the library, or the file that ggml is linked into
};

GgmlUse find_ggml(const std::string& program, std::string_view ld_library_path);

// A program of llama.cpp: the one that is named (or in the folder that is), else that of ARTESIAN_ENGINE_BIN, of the
// PATH, or the one that ./quickstart has built.
Result<std::string> find_engine(const Context& context, const std::string& named, const std::string& engine_program);

}  // namespace artesian::cli
