// Generated models are whole, the same every time, and hold values of the size asked for.
#include "bench/model_gen/model_gen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "bench/model_gen/random_weights.h"
#include "format/gguf_model.h"
#include "format/memory_source.h"

namespace artesian {
namespace {

using Files = std::map<std::string, std::vector<std::byte>>;

class AppendSink final : public ByteSink {
 public:
  explicit AppendSink(std::vector<std::byte>& bytes) : bytes_(bytes) {}
  Status write(std::span<const std::byte> bytes) override {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return {};
  }

 private:
  std::vector<std::byte>& bytes_;
};

MemorySource tokenizer() {
  GgufPlan plan;
  plan.add_string("general.architecture", "llama");
  plan.add_string("tokenizer.ggml.model", "gpt2");
  std::vector<std::string> tokens = {"<s>", "a", "b", "ab", "c", "abc"};
  while (tokens.size() < 64) tokens.push_back("x" + std::to_string(tokens.size()));
  plan.add_strings("tokenizer.ggml.tokens", tokens);
  plan.add_i32s("tokenizer.ggml.token_type", std::vector<std::int32_t>(tokens.size(), 1));
  plan.add_strings("tokenizer.ggml.merges", std::vector<std::string>{"a b", "ab c"});
  plan.add_u32("tokenizer.ggml.eos_token_id", 0);
  plan.add_u32("tokenizer.ggml.padding_token_id", 60);
  return {"tokenizer.gguf", plan.header(0, 0)};
}

Result<Files> generate(const ModelSpec& spec) {
  Files files;
  auto source = tokenizer();
  const auto open = [&](const std::string& path) -> Result<std::unique_ptr<ByteSink>> {
    return std::make_unique<AppendSink>(files[path]);
  };
  auto paths = generate_model(spec, source, "m.gguf", open);
  if (!paths) return fail(std::move(paths.error()));
  return files;
}

Result<GgufModel> open_files(const Files& files) {
  return open_model(files.begin()->first, [&](const std::string& path) -> Result<std::unique_ptr<ByteSource>> {
    const auto found = files.find(path);
    if (found == files.end()) return fail(Code::not_found, "{}: is missing", path);
    return std::make_unique<MemorySource>(path, found->second);
  });
}

ModelSpec tiny(std::string arch) {
  return {
      .arch = std::move(arch), .layers = 2, .width = 64, .ff = 32, .experts = 4, .heads = 4, .kv_heads = 4, .vocab = 5};
}

TEST(ModelGen, EveryArchitectureIsWhole) {
  for (const ModelArch& arch : model_archs()) {
    const auto files = generate(tiny(std::string(arch.name)));
    ASSERT_TRUE(files) << files.error().message;
    const auto model = open_files(*files);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->facts.block_count, 2U);
    const bool experts = arch.name != "llama";
    EXPECT_EQ(model->facts.expert_count, experts ? 4U : 0U) << arch.name;
    EXPECT_EQ(model->find("blk.1.ffn_down_exps.weight") != nullptr, experts) << arch.name;
    const auto tokens = std::get<GgufArray>(model->files[0].metadata.at("tokenizer.ggml.tokens"));
    EXPECT_EQ(tokens.strings.size(), 5U);
    EXPECT_EQ(model->find("token_embd.weight")->ne[1], 5U);
  }
}

TEST(ModelGen, ACutVocabularyKeepsOnlyWhatItCanMake) {
  const auto files = generate(tiny("llama"));
  ASSERT_TRUE(files);
  const auto model = open_files(*files);
  ASSERT_TRUE(model);
  const GgufFile& file = model->files[0];
  EXPECT_THAT(std::get<GgufArray>(file.metadata.at("tokenizer.ggml.merges")).strings, testing::ElementsAre("a b"));
  EXPECT_EQ(file.find_uint("tokenizer.ggml.eos_token_id"), 0U);
  EXPECT_EQ(file.find_uint("tokenizer.ggml.padding_token_id"), std::nullopt);
  EXPECT_EQ(file.find_string("tokenizer.ggml.model"), "gpt2");
}

TEST(ModelGen, TheSeedDecidesTheBytes) {
  ModelSpec spec = tiny("qwen3moe");
  const auto once = generate(spec);
  const auto again = generate(spec);
  spec.seed = 2;
  const auto other = generate(spec);
  ASSERT_TRUE(once && again && other);
  EXPECT_EQ(*once, *again);
  EXPECT_NE(*once, *other);
}

TEST(ModelGen, ShardsHoldTheSameTensors) {
  ModelSpec spec = tiny("qwen3moe");
  const auto whole_files = generate(spec);
  spec.shards = 3;
  const auto shard_files = generate(spec);
  ASSERT_TRUE(whole_files && shard_files);
  EXPECT_EQ(shard_files->size(), 3U);
  const auto whole = open_files(*whole_files);
  const auto shards = open_files(*shard_files);
  ASSERT_TRUE(whole && shards);
  ASSERT_EQ(whole->tensors.size(), shards->tensors.size());
  for (const GgufTensor& tensor : whole->tensors) {
    const GgufTensor* same = shards->find(tensor.name);
    ASSERT_NE(same, nullptr);
    const auto a = std::span(whole_files->at(whole->paths[0])).subspan(tensor.offset, tensor.bytes);
    const auto b = std::span(shard_files->at(shards->paths[same->file])).subspan(same->offset, same->bytes);
    EXPECT_TRUE(std::ranges::equal(a, b)) << tensor.name;
  }
}

TEST(ModelGen, MixedHasSixBitsDownInEverySecondLayer) {
  ModelSpec spec = tiny("qwen3moe");
  spec.type = "mixed";
  spec.width = spec.ff = 256;
  const auto files = generate(spec);
  ASSERT_TRUE(files);
  const auto model = open_files(*files);
  ASSERT_TRUE(model);
  const auto type = [&](std::string_view name) { return find_ggml_type(model->find(name)->type)->name; };
  EXPECT_EQ(type("blk.0.ffn_down_exps.weight"), "Q6_K");
  EXPECT_EQ(type("blk.1.ffn_down_exps.weight"), "Q4_K");
  EXPECT_EQ(type("blk.0.ffn_up_exps.weight"), "Q4_K");
}

TEST(ModelGen, BadOptionsAreNamed) {
  const auto message = [](auto change) {
    ModelSpec spec = tiny("qwen3moe");
    change(spec);
    const auto files = generate(spec);
    return files ? std::string("no error") : files.error().message;
  };
  EXPECT_EQ(message([](ModelSpec& s) { s.arch = "x"; }), "--arch x: there is no such architecture");
  EXPECT_EQ(message([](ModelSpec& s) { s.type = "IQ1_S"; }), "--type IQ1_S: cannot be generated");
  EXPECT_EQ(message([](ModelSpec& s) { s.width = 0; }), "--width 0: takes 1 to 1048576");
  EXPECT_EQ(message([](ModelSpec& s) { s.kv_heads = 3; }), "--kv-heads 3: must divide --heads 4");
  EXPECT_EQ(message([](ModelSpec& s) { s.used = 5; }),
            "--used 5 of --experts 4: takes 1 up to the experts, at most 512");
  EXPECT_EQ(message([](ModelSpec& s) { s.vocab = 1000; }), "--vocab 1000: the tokenizer has 64 tokens");
  EXPECT_EQ(message([](ModelSpec& s) { s.shards = 1000; }), "--shards 1000: the model has 27 tensors");
  EXPECT_THAT(message([](ModelSpec& s) { s.fused = true; }), testing::StartsWith("--fused: "));
}

float half_value(std::uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int fraction = half & 1023;
  const double size = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return static_cast<float>((half & 0x8000) != 0 ? -size : size);
}

// The values of Q8_0 and Q4_K blocks, as ggml reads them.
std::vector<float> values_of(std::string_view type, const std::vector<std::byte>& bytes) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned>(bytes[i]); };
  const auto half = [&](std::size_t i) { return half_value(static_cast<std::uint16_t>(at(i) | (at(i + 1) << 8U))); };
  std::vector<float> out;
  if (type == "Q8_0") {
    for (std::size_t b = 0; b < bytes.size(); b += 34) {
      for (std::size_t i = 0; i < 32; ++i)
        out.push_back(half(b) * static_cast<float>(static_cast<std::int8_t>(at(b + 2 + i))));
    }
    return out;
  }
  for (std::size_t b = 0; b < bytes.size(); b += 144) {
    for (std::size_t j = 0; j < 8; ++j) {
      const std::size_t s = b + 4;
      const unsigned scale = j < 4 ? at(s + j) & 63U : (at(s + j + 4) & 15U) | ((at(s + j - 4) >> 6U) << 4U);
      const unsigned least = j < 4 ? at(s + j + 4) & 63U : (at(s + j + 4) >> 4U) | ((at(s + j) >> 6U) << 4U);
      for (std::size_t i = 0; i < 32; ++i) {
        const unsigned byte = at(b + 16 + 32 * (j / 2) + i);
        const unsigned quant = j % 2 == 0 ? byte & 15U : byte >> 4U;
        out.push_back(half(b) * static_cast<float>(scale * quant) - half(b + 2) * static_cast<float>(least));
      }
    }
  }
  return out;
}

TEST(RandomWeights, HaveTheDeviationAskedForAndNoMean) {
  for (const auto& [name, blocks] : {std::pair{"Q8_0", 20000U}, std::pair{"Q4_K", 2500U}}) {
    const GgmlType* type = find_ggml_type(name);
    std::vector<std::byte> bytes(std::size_t{blocks} * type->block_bytes);
    WeightFiller(type->id, 0.03, 7).fill(bytes);
    double sum = 0, squares = 0;
    const auto values = values_of(name, bytes);
    for (float value : values) {
      sum += value;
      squares += static_cast<double>(value) * value;
    }
    const auto count = static_cast<double>(values.size());
    EXPECT_NEAR(std::sqrt(squares / count), 0.03, 0.002) << name;
    EXPECT_NEAR(sum / count, 0, 0.0005) << name;
  }
}

TEST(RandomWeights, HalvesRoundToNearest) {
  for (float value : {0.0F, 1.0F, -1.0F, 0.333251953125F, 65504.0F, 6.103515625e-5F, 5.9604645e-8F, -2.5e-6F, 0.1F}) {
    const float back = half_value(to_half(value));
    EXPECT_NEAR(back, value, std::max(std::abs(value) / 2048, 3e-8F)) << value;
  }
  EXPECT_EQ(to_half(1e6F), 0x7c00);
  EXPECT_EQ(to_bfloat(1.0F), 0x3f80);
}

}  // namespace
}  // namespace artesian
