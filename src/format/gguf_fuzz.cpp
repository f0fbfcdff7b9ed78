// libFuzzer: no bytes may crash the parser, and what it accepts lies inside the file. Without a corpus it starts from a
// valid file made here; see README.md.
#include <cstdint>
#include <cstdlib>

#include "format/gguf_model.h"
#include "format/gguf_writer.h"
#include "format/memory_source.h"

namespace {

using namespace artesian;

std::vector<std::byte> seed_file() {
  GgufPlan plan;
  plan.add_string("general.architecture", "llama");
  plan.add_u32("general.alignment", 64);
  plan.add_u16("split.count", 1);
  plan.add_strings("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
  plan.add_i32s("llama.feed_forward_length", std::vector<std::int32_t>{1, 2});
  plan.add_tensor("blk.0.ffn_gate_exps.weight", 8, {32, 2, 2});
  plan.add_tensor("output_norm.weight", 0, {4});
  auto bytes = plan.header(0, 2);
  bytes.resize(bytes.size() + 512);
  return bytes;
}

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t bytes, std::size_t bytes_max);

// Bytes that do not even begin like GGUF are replaced by a valid file now and then, so that the fuzzer gets past the
// magic.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t bytes, std::size_t bytes_max,
                                               unsigned seed) {
  static const std::vector<std::byte> valid = seed_file();
  if ((bytes < 24 || seed % 1024 == 0) && valid.size() <= bytes_max) {
    std::memcpy(data, valid.data(), valid.size());
    bytes = valid.size();
  }
  return LLVMFuzzerMutate(data, bytes, bytes_max);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const auto open = [&](const std::string& path) -> Result<std::unique_ptr<ByteSource>> {
    const auto view = std::as_bytes(std::span(data, bytes));
    return std::make_unique<MemorySource>(path, std::vector<std::byte>(view.begin(), view.end()));
  };
  const auto model = open_model("m-00001-of-00002.gguf", open);
  if (!model) {
    require(!model.error().message.empty());
    return 0;
  }
  for (const GgufTensor& tensor : model->tensors) {
    require(tensor.offset <= bytes && tensor.bytes <= bytes - tensor.offset);
    require(tensor.matrix_bytes() * tensor.ne[2] * tensor.ne[3] == tensor.bytes);
    require(model->find(tensor.name) == &tensor);
    require(!is_routed_expert(classify(tensor).part) || classify(tensor).layer.has_value());
  }
  for (const GgufFile& file : model->files) {
    for (const GgufEntry& entry : file.entries) require(entry.offset <= bytes && entry.bytes <= bytes - entry.offset);
  }
  return 0;
}
