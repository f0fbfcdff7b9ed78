// A model made of its shards, and what its tensors are for. Plain data once opened: safe to read from many threads.
#pragma once

#include <functional>

#include "format/gguf.h"

namespace artesian {

// What a tensor is for, as its name says (the names are llama.cpp's).
enum class TensorPart : std::uint8_t {
  expert_gate,     // blk.N.ffn_gate_exps.weight, or blk.N.ffn_gate.E.weight of old files
  expert_up,       // blk.N.ffn_up_exps.weight
  expert_down,     // blk.N.ffn_down_exps.weight
  expert_gate_up,  // blk.N.ffn_gate_up_exps.weight: gate and up fused
  expert_small,    // biases and scales of experts
  router,          // blk.N.ffn_gate_inp, exp_probs_b
  shared_expert,   // blk.N.ffn_*_shexp, ffn_gate_inp_shexp: used for every token
  ffn,             // blk.N.ffn_gate, ffn_up, ffn_down of a dense layer
  attention,       // blk.N.attn_*
  embedding,       // token_embd
  output,          // output
  norm,            // any *_norm
  other,
};
std::string_view part_name(TensorPart part);

// The matrices of routed experts, the ones that a router chooses among.
constexpr bool is_routed_expert(TensorPart part) {
  return part <= TensorPart::expert_gate_up;
}

struct TensorRole {
  TensorPart part = TensorPart::other;
  bool weight = false;                  // the name ends in ".weight" (not a bias or a scale)
  std::optional<std::uint32_t> layer;   // N of blk.N
  std::optional<std::uint32_t> expert;  // of old files with a tensor per expert
};
TensorRole classify(std::string_view tensor_name);
inline TensorRole classify(const GgufTensor& tensor) {
  return classify(tensor.name);
}

// The facts that metadata gives; 0 where the file does not say. A per-layer array counts as its largest.
struct GgufFacts {
  std::string architecture;  // "qwen3moe"
  std::string name;
  std::uint64_t block_count = 0;
  std::uint64_t expert_count = 0;
  std::uint64_t expert_used_count = 0;
  std::uint64_t embedding_length = 0;
  std::uint64_t context_length = 0;
  std::uint64_t feed_forward_length = 0;
};

struct GgufModel {
  std::vector<std::string> paths;
  std::vector<GgufFile> files;      // tensors moved out, into the next; metadata of the model is that of files[0]
  std::vector<GgufTensor> tensors;  // of all shards, in file order; .file is the shard
  GgufFacts facts;

  const GgufTensor* find(std::string_view name) const;  // nullptr if there is none
  std::uint64_t tensor_bytes() const;

  std::vector<std::uint32_t> by_name;  // indices into tensors, ordered by name; kept by open_model
};

using OpenSource = std::function<Result<std::unique_ptr<ByteSource>>(const std::string& path)>;

// Opens the first shard (or the only file) and the others beside it, named as llama.cpp names them:
// prefix-00001-of-00003.gguf. Errors: `open`'s own with the shard's path, and GgufFile::parse's.
Result<GgufModel> open_model(const std::string& first_path, const OpenSource& open);

// The path of shard `index` (from 0); and the prefix of such a path, or nothing if it is not named so.
std::string shard_path(std::string_view prefix, std::uint64_t index, std::uint64_t count);
std::optional<std::string> shard_prefix(std::string_view path, std::uint64_t index, std::uint64_t count);

}  // namespace artesian
