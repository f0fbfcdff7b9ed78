#include "bench/model_gen/model_gen.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "bench/model_gen/model_layout.h"
#include "bench/model_gen/random_weights.h"

namespace artesian {
namespace {

const ModelSpec bench_moe{.arch = "qwen3moe",
                          .layers = 12,
                          .width = 1024,
                          .ff = 512,
                          .experts = 64,
                          .used = 8,
                          .heads = 16,
                          .kv_heads = 8,
                          .context = 8192};

ModelSpec with_flat_routing(ModelSpec spec) {
  spec.routing = Routing::flat;
  return spec;
}

// Small ones for tests: a few MB, rows of 256 as K-quants need them, 4,096 tokens.
ModelSpec small(std::string arch, std::string type) {
  return {.arch = std::move(arch), .vocab = 4096, .type = std::move(type)};
}

ModelSpec small_qwen3(std::string type, std::uint32_t shards) {
  ModelSpec spec = small("qwen3moe", std::move(type));
  spec.experts = 16;
  spec.used = 4;
  spec.shards = shards;
  return spec;
}

ModelSpec small_fused() {
  ModelSpec spec = small("deepseek2", "Q8_0");
  spec.fused = true;
  return spec;
}

// Slices of 29,376 bytes: not a multiple of 512.
ModelSpec small_odd() {
  return {
      .arch = "qwen3moe", .width = 288, .ff = 96, .experts = 12, .used = 3, .heads = 6, .kv_heads = 3, .vocab = 4096};
}

ModelSpec wide_gpt_oss() {
  ModelSpec spec = small("gpt-oss", "MXFP4");
  spec.layers = 3;
  spec.width = 2880;
  spec.ff = 320;
  spec.used = 4;
  spec.heads = 16;
  spec.head_size = 64;
  return spec;
}

ModelSpec small_olmoe() {
  ModelSpec spec = small("olmoe", "Q8_0");
  spec.kv_heads = spec.heads;
  return spec;
}

const ModelPreset presets[] = {
    {"bench-moe", "1.43 GB: 12 layers, width 1024, 64 experts of 512, 8 used, Q8_0", bench_moe},
    {"bench-moe-flat", "the same with flat routing", with_flat_routing(bench_moe)},
    {"bench-dense",
     "1.51 GB: 28 layers, width 2048, Q8_0",
     {.arch = "llama", .layers = 28, .width = 2048, .ff = 5376, .heads = 32, .kv_heads = 8, .context = 8192}},
    {"small-llama", "4 MB, dense", small("llama", "Q8_0")},
    {"small-mixtral", "10 MB, 8 experts", small("mixtral", "Q8_0")},
    {"small-olmoe", "10 MB, 8 experts", small_olmoe()},
    {"small-qwen3moe", "17 MB, 16 experts", small_qwen3("Q8_0", 1)},
    {"small-qwen2moe", "11 MB, 8 experts and a shared one", small("qwen2moe", "Q8_0")},
    {"small-deepseek2", "9 MB, 8 experts and a shared one", small("deepseek2", "Q8_0")},
    {"small-fused", "9 MB, gate and up in one tensor", small_fused()},
    {"small-gpt-oss", "7 MB, MXFP4, biases", small("gpt-oss", "MXFP4")},
    {"wide-gpt-oss", "82 MB, width 2880, MXFP4, biases", wide_gpt_oss()},
    {"small-q4_k", "9 MB, Q4_K", small_qwen3("Q4_K", 1)},
    {"small-mixed", "10 MB, Q4_K and Q6_K, 3 shards", small_qwen3("mixed", 3)},
    {"small-odd", "8 MB, slices that are not multiples of 512 bytes", small_odd()},
};

// The parts of a tokenizer that are as long as the vocabulary.
constexpr std::string_view tokens_key = "tokenizer.ggml.tokens";
constexpr std::string_view types_key = "tokenizer.ggml.token_type";
constexpr std::string_view merges_key = "tokenizer.ggml.merges";

const GgufArray* find_array(const GgufFile& file, std::string_view key) {
  const auto found = file.metadata.find(key);
  return found == file.metadata.end() ? nullptr : std::get_if<GgufArray>(&found->second);
}

// The first `vocab` tokens and the merges that make them.
Status cut_vocabulary(const GgufFile& file, std::uint32_t vocab, GgufPlan& plan) {
  const GgufArray& tokens = *find_array(file, tokens_key);
  const GgufArray* types = find_array(file, types_key);
  const GgufArray* merges = find_array(file, merges_key);
  if (types == nullptr || types->numbers.size() != tokens.count || merges == nullptr) {
    return fail(Code::invalid, "--vocab {}: only a BPE vocabulary of up to {} tokens with types can be cut", vocab,
                gguf_limits::numbers_kept_max);
  }
  const auto kept = std::span(tokens.strings).first(vocab);
  const std::unordered_set<std::string_view> known(kept.begin(), kept.end());
  std::vector<std::string> made;
  for (const std::string& merge : merges->strings) {
    const std::size_t space = merge.find(' ', 1);
    if (space == std::string::npos) continue;
    const std::string_view left = std::string_view(merge).substr(0, space);
    const std::string_view right = std::string_view(merge).substr(space + 1);
    if (known.contains(left) && known.contains(right) && known.contains(std::string(left) + std::string(right))) {
      made.push_back(merge);
    }
  }
  std::vector<std::int32_t> type_numbers;
  for (std::uint32_t i = 0; i < vocab; ++i) type_numbers.push_back(static_cast<std::int32_t>(types->numbers[i]));
  plan.add_strings(tokens_key, kept);
  plan.add_i32s(types_key, type_numbers);
  plan.add_strings(merges_key, made);
  return {};
}

// Copies what the tokenizer's file says about it; returns the number of tokens.
Result<std::uint32_t> check_tokenizer(const ModelSpec& spec, const GgufFile& file) {
  const GgufArray* tokens = find_array(file, tokens_key);
  if (tokens == nullptr || tokens->strings.size() != tokens->count || tokens->count == 0) {
    return fail(Code::invalid, "--tokenizer {}: has no {} that can be copied", file.path, tokens_key);
  }
  if (spec.vocab > tokens->count) {
    return fail(Code::invalid, "--vocab {}: the tokenizer has {} tokens", spec.vocab, tokens->count);
  }
  return spec.vocab != 0 ? spec.vocab : static_cast<std::uint32_t>(tokens->count);
}

Status copy_tokenizer(const ModelSpec& spec, const GgufFile& file, ByteSource& source, GgufPlan& plan) {
  const bool cut = spec.vocab != find_array(file, tokens_key)->count;
  if (cut) {
    if (auto done = cut_vocabulary(file, spec.vocab, plan); !done) return done;
  }
  for (const GgufEntry& entry : file.entries) {
    if (!entry.key.starts_with("tokenizer.")) continue;
    if (cut && (entry.key == tokens_key || entry.key == types_key || entry.key == merges_key)) continue;
    if (cut && entry.key == "tokenizer.ggml.scores") continue;
    const auto id = entry.key.ends_with("_token_id") ? file.find_uint(entry.key) : std::nullopt;
    if (id && *id >= spec.vocab) continue;  // a special token that was cut away
    std::vector<std::byte> bytes(entry.bytes);
    if (auto read = source.read(entry.offset, bytes); !read) return read;
    plan.add_raw(bytes);
  }
  return {};
}

Status fill_tensor(const ModelLayout& layout, std::uint64_t seed, const GgufTensor& tensor, ByteSink& sink) {
  const TensorFill& fill = layout.fills.find(tensor.name)->second;
  if (fill.constant) {
    const std::vector<float> values(tensor.ne[0], fill.value);
    return sink.write(std::as_bytes(std::span(values)));
  }
  WeightFiller filler(tensor.type, fill.deviation, seed ^ hash_name(tensor.name));
  constexpr std::uint64_t chunk_bytes_max = 1ULL << 20U;
  const std::uint64_t block = find_ggml_type(tensor.type)->block_bytes;
  std::vector<std::byte> chunk(std::min(chunk_bytes_max / block * block, tensor.bytes));
  for (std::uint64_t left = tensor.bytes; left > 0;) {
    const auto part = std::span(chunk).first(std::min<std::uint64_t>(left, chunk.size()));
    filler.fill(part);
    if (auto wrote = sink.write(part); !wrote) return wrote;
    left -= part.size();
  }
  return {};
}

}  // namespace

std::span<const ModelPreset> model_presets() {
  return presets;
}

Result<std::vector<std::string>> generate_model(const ModelSpec& spec, ByteSource& tokenizer, const std::string& path,
                                                const OpenSink& open) {
  if (auto checked = check_spec(spec); !checked) return fail(std::move(checked.error()));
  const auto file = GgufFile::parse(tokenizer);
  if (!file) return fail(file.error());
  const auto vocab = check_tokenizer(spec, *file);
  if (!vocab) return fail(vocab.error());
  ModelSpec whole = spec;
  whole.vocab = *vocab;
  ModelLayout layout = lay_out(whole);
  if (auto copied = copy_tokenizer(whole, *file, tokenizer, layout.plan); !copied)
    return fail(std::move(copied.error()));
  if (spec.shards > layout.plan.tensors().size()) {
    return fail(Code::invalid, "--shards {}: the model has {} tensors", spec.shards, layout.plan.tensors().size());
  }
  return write_gguf(layout.plan, {.shards = spec.shards}, path, open, [&](const GgufTensor& tensor, ByteSink& sink) {
    return fill_tensor(layout, spec.seed, tensor, sink);
  });
}

}  // namespace artesian
