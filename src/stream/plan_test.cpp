#include "stream/plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/units.h"

namespace artesian {
namespace {

constexpr std::uint32_t type_q8_0 = 8;

GgufTensor tensor(const std::string& name, std::uint64_t width, std::uint64_t rows, std::uint64_t matrices,
                  std::uint64_t& offset) {
  GgufTensor made{.name = name, .type = type_q8_0, .ne = {width, rows, matrices, 1}, .offset = offset};
  made.bytes = width / 32 * 34 * rows * matrices;
  offset += made.bytes;
  return made;
}

GgufModel moe(std::uint64_t layers, std::uint64_t experts) {
  GgufModel model;
  model.paths = {"moe.gguf"};
  model.facts.expert_count = experts;
  model.facts.expert_used_count = 4;
  std::uint64_t offset = 4096;
  for (std::uint64_t layer = 0; layer < layers; ++layer) {
    const std::string prefix = fmt::format("blk.{}.", layer);
    model.tensors.push_back(tensor(prefix + "attn_q.weight", 1024, 1024, 1, offset));
    for (const char* part : {"ffn_down_exps", "ffn_gate_exps", "ffn_up_exps"}) {
      model.tensors.push_back(tensor(prefix + part + ".weight", 1024, 512, experts, offset));
    }
  }
  return model;
}

TEST(Plan, StepsAsideWhenTheModelFits) {
  const GgufModel model = moe(4, 32);
  const auto plan = make_plan(model, {.budget_bytes = 2 * model.tensor_bytes()});
  ASSERT_TRUE(plan);
  EXPECT_FALSE(plan->active);
  EXPECT_NE(plan->reason.find("fits in memory"), std::string::npos);
}

TEST(Plan, NeverTakesMoreThanTheBudgetAndRefusesWithTheLeast) {
  const GgufModel model = moe(4, 32);
  const auto refused = make_plan(model, {.mode = PlanMode::on, .budget_bytes = 1 * MiB});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::rejected);
  for (std::uint64_t budget = 8 * MiB; budget < model.tensor_bytes(); budget += 3 * MiB) {
    const auto plan = make_plan(model, {.mode = PlanMode::on, .budget_bytes = budget});
    if (!plan) {
      EXPECT_NE(plan.error().message.find("too small"), std::string::npos);
      continue;
    }
    ASSERT_TRUE(plan->active);
    EXPECT_GE(budget, plan->least_budget);
    EXPECT_LE(plan->arena_bytes + plan->engine_bytes + plan->bookkeeping_bytes, budget);
    EXPECT_LE(plan->least_arena_bytes, plan->arena_bytes);
    EXPECT_GE(plan->least_arena_bytes, plan->slabs[0].stride * plan->slabs[0].window_slots);
    for (const ExpertLayerPlan& layer : plan->layers) EXPECT_GE(layer.slots, 1U);
  }
}

TEST(Plan, SlotsOfAPartAreApartAndAgreeWithTheFile) {
  const GgufModel model = moe(3, 16);
  const auto plan = make_plan(model, {.mode = PlanMode::on, .budget_bytes = model.tensor_bytes() / 2});
  ASSERT_TRUE(plan) << plan.error().message;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const ExpertLayerPlan& layer : plan->layers) {
    ASSERT_EQ(layer.parts.size(), 3U);
    EXPECT_NE(model.tensors[layer.parts[0].tensor].name.find("ffn_gate"), std::string::npos);  // the order of use
    for (const ExpertPartPlan& part : layer.parts) {
      const SlabPlan& slab = plan->slabs[part.slab];
      EXPECT_EQ(part.base % slab_page, 0U);
      EXPECT_EQ(part.residue, model.tensors[part.tensor].offset % slab_page);
      EXPECT_GE(slab.stride, part.residue + model.tensors[part.tensor].matrix_bytes());
      EXPECT_EQ((slab.window_base - part.base) % slab.stride, 0U);
      ranges.emplace_back(part.base, part.base + layer.slots * slab.stride);
    }
  }
  for (const SlabPlan& slab : plan->slabs) {
    ranges.emplace_back(slab.window_base, slab.window_base + slab.window_slots * slab.stride);
  }
  std::ranges::sort(ranges);
  for (std::size_t i = 1; i < ranges.size(); ++i) EXPECT_LE(ranges[i - 1].second, ranges[i].first);
  EXPECT_LE(ranges.back().second, plan->arena_bytes);
}

}  // namespace
}  // namespace artesian
