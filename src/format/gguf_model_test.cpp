// Shards make a model, names make roles.
#include "format/gguf_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "format/gguf_writer.h"
#include "format/memory_source.h"

namespace artesian {
namespace {

// Files in memory, for writing and reading.
class MemoryFiles {
 public:
  OpenSink sink() {
    return [this](const std::string& path) -> Result<std::unique_ptr<ByteSink>> {
      files[path].clear();
      return std::make_unique<Sink>(files[path]);
    };
  }
  OpenSource source() {
    return [this](const std::string& path) -> Result<std::unique_ptr<ByteSource>> {
      const auto found = files.find(path);
      if (found == files.end()) return fail(Code::not_found, "{}: cannot be opened", path);
      return std::make_unique<MemorySource>(path, found->second);
    };
  }
  std::map<std::string, std::vector<std::byte>> files;

 private:
  class Sink final : public ByteSink {
   public:
    explicit Sink(std::vector<std::byte>& bytes) : bytes_(bytes) {}
    Status write(std::span<const std::byte> bytes) override {
      bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
      return {};
    }

   private:
    std::vector<std::byte>& bytes_;
  };
};

// Each tensor is filled with its own last character.
Status fill_by_name(const GgufTensor& tensor, ByteSink& sink) {
  return sink.write(std::vector<std::byte>(tensor.bytes, static_cast<std::byte>(tensor.name.back())));
}

GgufPlan five_tensors() {
  GgufPlan plan;
  plan.add_string("general.architecture", "qwen3moe");
  plan.add_string("general.name", "five");
  plan.add_u32("qwen3moe.block_count", 3);
  plan.add_u32("qwen3moe.expert_count", 8);
  plan.add_u32("qwen3moe.expert_used_count", 2);
  plan.add_i32s("qwen3moe.feed_forward_length", std::vector<std::int32_t>{64, 96, 64});
  for (const char* name : {"e", "b", "d", "a", "c"}) plan.add_tensor(name, 0, {7});
  return plan;
}

TEST(GgufModel, ShardsMakeOneModel) {
  for (const GgufShardLimit limit :
       {GgufShardLimit{.shards = 3}, GgufShardLimit{.tensors_max = 2}, GgufShardLimit{.bytes_max = 60}}) {
    MemoryFiles memory;
    const auto paths = write_gguf(five_tensors(), limit, "dir/m.gguf", memory.sink(), fill_by_name);
    ASSERT_TRUE(paths) << paths.error().message;
    ASSERT_THAT(*paths, testing::ElementsAre("dir/m-00001-of-00003.gguf", "dir/m-00002-of-00003.gguf",
                                             "dir/m-00003-of-00003.gguf"));
    const auto model = open_model(paths->front(), memory.source());
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->paths, *paths);
    ASSERT_EQ(model->tensors.size(), 5U);
    for (const char* name : {"a", "b", "c", "d", "e"}) {
      const GgufTensor* tensor = model->find(name);
      ASSERT_NE(tensor, nullptr) << name;
      const auto& bytes = memory.files[model->paths[tensor->file]];
      EXPECT_EQ(bytes[tensor->offset], static_cast<std::byte>(*name));
      EXPECT_EQ(bytes[tensor->offset + tensor->bytes - 1], static_cast<std::byte>(*name));
    }
    EXPECT_EQ(model->find("f"), nullptr);
    EXPECT_EQ(model->tensor_bytes(), 5U * 28U);
    EXPECT_EQ(model->facts.block_count, 3U);
    EXPECT_EQ(model->facts.expert_used_count, 2U);
    EXPECT_EQ(model->facts.feed_forward_length, 96U);
    EXPECT_EQ(model->facts.name, "five");
  }
}

TEST(GgufModel, OneFileNeedsNoShardName) {
  MemoryFiles memory;
  ASSERT_TRUE(write_gguf(five_tensors(), {}, "m.gguf", memory.sink(), fill_by_name));
  const auto model = open_model("m.gguf", memory.source());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->paths.size(), 1U);
}

std::string error_of(MemoryFiles& memory, const std::string& path) {
  const auto model = open_model(path, memory.source());
  return model ? "no error" : model.error().message;
}

TEST(GgufModel, BrokenSetsOfShardsAreRefusedInOneSentence) {
  MemoryFiles whole;
  ASSERT_TRUE(write_gguf(five_tensors(), {.shards = 3}, "m.gguf", whole.sink(), fill_by_name));
  const auto first = shard_path("m", 0, 3);
  const auto second = shard_path("m", 1, 3);
  const auto third = shard_path("m", 2, 3);

  MemoryFiles missing = whole;
  missing.files.erase(second);
  EXPECT_EQ(error_of(missing, first), "m-00002-of-00003.gguf: shard 2 of 3 is missing");

  EXPECT_EQ(error_of(whole, second), "m-00002-of-00003.gguf: this is shard 2 of 3; give the first one");

  MemoryFiles renamed = whole;
  renamed.files["model.gguf"] = whole.files[first];
  EXPECT_EQ(error_of(renamed, "model.gguf"),
            "model.gguf: the first of 3 shards must be named like NAME-00001-of-00003.gguf");

  MemoryFiles mixed = whole;
  mixed.files[second] = whole.files[third];
  EXPECT_EQ(error_of(mixed, first), "m-00002-of-00003.gguf: this should be shard 2 of 3, but split.no says 2");

  GgufPlan alone = five_tensors();
  MemoryFiles other = whole;
  MemoryFiles single;
  ASSERT_TRUE(write_gguf(alone, {}, "x.gguf", single.sink(), fill_by_name));
  other.files[third] = single.files["x.gguf"];
  EXPECT_EQ(error_of(other, first), "m-00003-of-00003.gguf: this should be shard 3 of 3, but split.no says nothing");

  MemoryFiles fewer = whole;
  GgufPlan more = five_tensors();
  more.add_tensor("f", 0, {7});
  MemoryFiles six;
  ASSERT_TRUE(write_gguf(more, {.shards = 3}, "m.gguf", six.sink(), fill_by_name));
  fewer.files[third] = six.files[third];
  EXPECT_EQ(error_of(fewer, first),
            "m-00003-of-00003.gguf: the 3 shards hold 5 tensors where split.tensors.count says 6");
}

TEST(GgufModel, ATensorInTwoShardsIsRefused) {
  GgufPlan twice = five_tensors();
  twice.add_tensor("e", 0, {7});
  MemoryFiles memory;
  ASSERT_TRUE(write_gguf(twice, {.shards = 2}, "m.gguf", memory.sink(), fill_by_name));
  EXPECT_THAT(error_of(memory, shard_path("m", 0, 2)), testing::EndsWith("tensor 'e' is in shard 1 as well"));
}

TEST(GgufWriter, HoldsTheFillerToItsWord) {
  MemoryFiles memory;
  const auto paths = write_gguf(five_tensors(), {}, "m.gguf", memory.sink(), [](const GgufTensor&, ByteSink& sink) {
    return sink.write(std::vector<std::byte>(27));
  });
  ASSERT_FALSE(paths);
  EXPECT_EQ(paths.error().message, "tensor 'e': 27 bytes were written where 28 belong");
}

struct Role {
  std::string_view name;
  TensorPart part;
  std::optional<std::uint32_t> layer;
  std::optional<std::uint32_t> expert;
};

TEST(TensorRole, FromItsName) {
  const Role roles[] = {
      {"blk.0.ffn_gate_exps.weight", TensorPart::expert_gate, 0, {}},
      {"blk.11.ffn_up_exps.weight", TensorPart::expert_up, 11, {}},
      {"blk.3.ffn_down_exps.weight", TensorPart::expert_down, 3, {}},
      {"blk.3.ffn_gate_up_exps.weight", TensorPart::expert_gate_up, 3, {}},
      {"blk.3.ffn_gate.7.weight", TensorPart::expert_gate, 3, 7},
      {"blk.3.ffn_down.7.weight", TensorPart::expert_down, 3, 7},
      {"blk.3.ffn_down_exps.bias", TensorPart::expert_small, 3, {}},
      {"blk.3.ffn_gate_inp.weight", TensorPart::router, 3, {}},
      {"blk.3.exp_probs_b.bias", TensorPart::router, 3, {}},
      {"blk.3.ffn_gate_inp_shexp.weight", TensorPart::shared_expert, 3, {}},
      {"blk.3.ffn_up_shexp.weight", TensorPart::shared_expert, 3, {}},
      {"blk.3.ffn_up.weight", TensorPart::ffn, 3, {}},
      {"blk.3.ffn_norm.weight", TensorPart::norm, 3, {}},
      {"blk.3.attn_q.weight", TensorPart::attention, 3, {}},
      {"blk.3.attn_q_norm.weight", TensorPart::norm, 3, {}},
      {"token_embd.weight", TensorPart::embedding, {}, {}},
      {"output.weight", TensorPart::output, {}, {}},
      {"output_norm.weight", TensorPart::norm, {}, {}},
      {"rope_freqs.weight", TensorPart::other, {}, {}},
      {"ffn_gate_exps.weight", TensorPart::other, {}, {}},
      {"blk.x.ffn_gate_exps.weight", TensorPart::other, {}, {}},
      {"blk.99999999999.ffn_gate_exps.weight", TensorPart::other, {}, {}},
      {"blk.3.ffn_gate.x.weight", TensorPart::other, 3, {}},
      {"blk.", TensorPart::other, {}, {}},
      {"", TensorPart::other, {}, {}},
  };
  for (const Role& role : roles) {
    const TensorRole found = classify(role.name);
    EXPECT_EQ(part_name(found.part), part_name(role.part)) << role.name;
    EXPECT_EQ(found.layer, role.layer) << role.name;
    EXPECT_EQ(found.expert, role.expert) << role.name;
    EXPECT_EQ(found.weight, role.name.ends_with(".weight")) << role.name;
  }
}

}  // namespace
}  // namespace artesian
