// The figures of `artesian inspect` on models known to the byte, one of them larger than any memory.
#include "stream/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/units.h"
#include "format/gguf_writer.h"

namespace artesian {
namespace {

// A header, and the size that the file would have.
class HeaderSource final : public ByteSource {
 public:
  explicit HeaderSource(const GgufPlan& plan) : header_(plan.header(0, plan.tensors().size())), size_(header_.size()) {
    for (const GgufTensor& tensor : plan.tensors()) size_ += align_up(tensor.bytes, plan.alignment);
  }
  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return size_; }
  Status read(std::uint64_t offset, std::span<std::byte> out) override {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = offset + i < header_.size() ? header_[offset + i] : std::byte{};
    return {};
  }

 private:
  std::string name_ = "m.gguf";
  std::vector<std::byte> header_;
  std::uint64_t size_;
};

GgufModel open_plan(const GgufPlan& plan) {
  auto model = open_model("m.gguf", [&](const std::string&) -> Result<std::unique_ptr<ByteSource>> {
    return std::make_unique<HeaderSource>(plan);
  });
  EXPECT_TRUE(model) << model.error().message;
  return model ? *model : GgufModel{};
}

constexpr std::uint32_t q8_0 = 8;
constexpr std::uint32_t q4_k = 12;

GgufPlan moe(std::uint32_t layers, std::uint64_t width, std::uint64_t ff, std::uint64_t experts,
             std::uint32_t type = q8_0) {
  GgufPlan plan;
  plan.alignment = 4096;
  plan.add_string("general.architecture", "qwen3moe");
  plan.add_string("general.name", "test\x1b[31m \xff");
  plan.add_u32("qwen3moe.block_count", layers);
  plan.add_u32("qwen3moe.expert_count", static_cast<std::uint32_t>(experts));
  plan.add_u32("qwen3moe.expert_used_count", 8);
  plan.add_tensor("token_embd.weight", q8_0, {width, 32000});
  for (std::uint32_t i = 0; i < layers; ++i) {
    plan.add_tensor(fmt::format("blk.{}.attn_q.weight", i), q8_0, {width, width});
    plan.add_tensor(fmt::format("blk.{}.ffn_gate_exps.weight", i), type, {width, ff, experts});
    plan.add_tensor(fmt::format("blk.{}.ffn_up_exps.weight", i), type, {width, ff, experts});
    plan.add_tensor(fmt::format("blk.{}.ffn_down_exps.weight", i), type, {ff, width, experts});
  }
  return plan;
}

TEST(Inspect, BytesOfAMoe) {
  const GgufModel model = open_plan(moe(12, 1024, 512, 64));
  const std::uint64_t slice = 1024ULL * 512 / 32 * 34;
  const InspectReport report = inspect_model(model, {.bandwidth = 1e9});
  EXPECT_EQ(report.expert_bytes, 12 * 3 * 64 * slice);
  EXPECT_EQ(report.dense_bytes, 32000ULL * 1024 / 32 * 34 + 12ULL * 1024 * 1024 / 32 * 34);
  EXPECT_EQ(report.total_bytes, model.tensor_bytes());
  ASSERT_EQ(report.layers.size(), 1U);
  EXPECT_EQ(report.layers[0].layers.size(), 12U);
  EXPECT_EQ(report.layers[0].expert_bytes, 3 * slice);
  EXPECT_EQ(report.layers[0].parts[0].alignment, 4096U);
  EXPECT_EQ(report.lru_cliff_bytes, report.dense_bytes + 12 * 8 * 3 * slice);
  EXPECT_EQ(report.token_expert_bytes, 12 * 8 * 3 * slice);
  EXPECT_GE(report.token_bytes, report.token_expert_bytes);
}

TEST(Inspect, BudgetsRiseFromTheLeastThatWorksToAllInMemory) {
  const GgufModel model = open_plan(moe(12, 1024, 512, 64));
  const InspectReport report = inspect_model(model, {.bandwidth = 1e9});
  ASSERT_GT(report.budget_min_bytes, 0U);
  EXPECT_LT(report.budget_min_bytes, report.total_bytes / 2);
  ASSERT_GE(report.budgets.size(), 4U);
  EXPECT_EQ(report.budgets.front().budget_bytes, report.budget_min_bytes);
  EXPECT_TRUE(report.budgets.front().works);
  EXPECT_FALSE(report.budgets.back().streams);
  for (std::size_t i = 1; i < report.budgets.size(); ++i) {
    const InspectBudget& less = report.budgets[i - 1];
    const InspectBudget& more = report.budgets[i];
    EXPECT_GE(more.hit_rate, less.hit_rate);
    EXPECT_LE(more.bytes_per_token, less.bytes_per_token);
    if (more.bytes_per_token > 0) {
      EXPECT_NEAR(more.tokens_per_second * more.bytes_per_token, 1e9, 1);
    }
  }
  const InspectReport below = inspect_model(model, {.budgets = {report.budget_min_bytes - 2 * MiB}});
  EXPECT_FALSE(below.budgets.at(0).works);
}

TEST(Inspect, AModelOfManyTerabytesIsOnlyNumbers) {
  const GgufModel model = open_plan(moe(100, 16384, 8192, 512));
  const InspectReport report = inspect_model(model, {.bandwidth = 1e9});
  EXPECT_GT(report.total_bytes, 10 * TiB);
  EXPECT_GT(report.budget_min_bytes, 0U);
  EXPECT_THAT(report.warnings, testing::Contains(testing::HasSubstr("more than a second")));
}

TEST(Inspect, WarningsNameWhatWillNotWorkWell) {
  const auto warnings = [](const GgufPlan& plan) { return inspect_model(open_plan(plan), {}).warnings; };
  EXPECT_THAT(warnings(moe(2, 288, 96, 12)), testing::Contains(testing::HasSubstr("6 expert tensors have slices")));
  EXPECT_THAT(warnings(moe(2, 256, 256, 12, q4_k)), testing::Contains(testing::HasSubstr("repacks Q4_K")));
  EXPECT_THAT(warnings(moe(2, 256, 256, 12)), testing::Contains(testing::HasSubstr("output matrix is the embedding")));

  GgufPlan old;
  old.add_string("general.architecture", "llama");
  for (int i = 0; i < 8; ++i) old.add_tensor(fmt::format("blk.0.ffn_up.{}.weight", i), q8_0, {256, 256});
  const InspectReport report = inspect_model(open_plan(old), {});
  EXPECT_THAT(report.warnings, testing::Contains(testing::HasSubstr("8 tensors hold one expert each")));
  EXPECT_EQ(report.layers.at(0).experts, 8U);

  GgufPlan nothing;
  nothing.add_tensor("output_norm.weight", 0, {64});
  EXPECT_THAT(warnings(nothing), testing::Contains(testing::HasSubstr("nothing of this model can be streamed")));
}

TEST(Inspect, DenseModelsAreACycle) {
  GgufPlan plan;
  plan.add_string("general.architecture", "llama");
  for (int i = 0; i < 16; ++i) plan.add_tensor(fmt::format("blk.{}.ffn_up.weight", i), q8_0, {4096, 4096});
  const GgufModel model = open_plan(plan);
  const InspectReport report = inspect_model(model, {.bandwidth = 1e9, .budgets = {200 * MiB}});
  EXPECT_EQ(report.lru_cliff_bytes, report.total_bytes);
  EXPECT_EQ(report.token_bytes, report.total_bytes);
  const InspectBudget& row = report.budgets.at(0);
  EXPECT_TRUE(row.works && row.streams);
  EXPECT_GT(row.resident, 0.2);
  EXPECT_NEAR(row.bytes_per_token, (1 - row.resident) * static_cast<double>(report.total_bytes), 1);
}

TEST(Inspect, TextAndJsonSayTheSame) {
  const InspectReport report = inspect_model(open_plan(moe(12, 1024, 512, 64)), {.bandwidth = 1e9});
  const std::string text = to_text(report);
  EXPECT_THAT(text, testing::HasSubstr("12 layers"));
  EXPECT_THAT(text, testing::HasSubstr("layers 0-11: 64 experts of 1.67 MB"));
  EXPECT_THAT(text, testing::HasSubstr("expert down     Q8_0"));
  EXPECT_THAT(text, testing::HasSubstr(format_size(report.budget_min_bytes)));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("\x1b")));  // the name had a terminal code
  const auto json = nlohmann::json::parse(to_json_text(report));
  EXPECT_EQ(json["expert_bytes"], report.expert_bytes);
  EXPECT_EQ(json["budgets"].size(), report.budgets.size());
  EXPECT_EQ(json["layers"][0]["parts"][0]["type"], "Q8_0");
}

}  // namespace
}  // namespace artesian
