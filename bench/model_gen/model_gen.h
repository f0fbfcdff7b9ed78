// Models of random weights that unmodified llama.cpp loads and runs: the layout of an architecture, sizes and
// quantisation as asked for, the tokenizer of a given GGUF. The same spec gives the same bytes everywhere. Not thread
// safe.
#pragma once

#include <optional>
#include <string>

#include "format/gguf_writer.h"

namespace artesian {

enum class Routing : std::uint8_t {
  random,  // as random weights give it: contexts share some of their experts
  flat,    // by the token alone: nearly uniform over the experts, other ones for every token
};

struct ModelSpec {
  std::string arch = "qwen3moe";  // one of model_archs()
  std::uint32_t layers = 4;
  std::uint32_t width = 256;  // embedding_length
  std::uint32_t ff = 256;     // of one expert, or of a dense layer
  std::uint32_t experts = 8;  // ignored by dense architectures
  std::uint32_t used = 2;
  std::uint32_t heads = 4;
  std::uint32_t kv_heads = 2;
  std::uint32_t head_size = 0;  // 0: width / heads
  std::uint32_t vocab = 0;      // 0: all tokens of the tokenizer; else its first ones, for small models
  std::uint32_t context = 4096;
  std::string type = "Q8_0";  // a ggml type, or "mixed": Q4_K with Q6_K down on half the layers, as Q4_K_M has it
  bool tied = false;          // no output.weight of its own (where the architecture allows it)
  bool fused = false;         // gate and up experts in one tensor (deepseek2)
  Routing routing = Routing::random;
  std::uint64_t seed = 1;
  std::uint32_t shards = 1;
};

struct ModelArch {
  std::string_view name;  // of --arch
  std::string_view summary;
};
std::span<const ModelArch> model_archs();

struct ModelPreset {
  std::string_view name;
  std::string_view summary;
  ModelSpec spec;
};
std::span<const ModelPreset> model_presets();

// Code::invalid with the option at fault, or what the tokenizer source, `open` or a sink reports. `tokenizer` is a GGUF
// with a BPE vocabulary. Returns the paths written.
Result<std::vector<std::string>> generate_model(const ModelSpec& spec, ByteSource& tokenizer, const std::string& path,
                                                const OpenSink& open);

}  // namespace artesian
