#include "sim/expert_decoding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/units.h"
#include "nand/generated.h"

namespace artesian::sim {
namespace {

constexpr std::uint32_t type_i8 = 24;            // an element is a byte
constexpr std::uint64_t slice_alignment = 4096;  // of an expert's matrices in the file
constexpr std::uint64_t weights_seed = 0x77656967687473;
constexpr std::array<std::string_view, 3> part_names{"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"};

// The recording says how large an expert is; its three matrices are taken to be alike.
std::uint64_t slice_bytes(const ExpertLayer& layer) {
  return align_up(layer.expert_bytes / part_names.size(), slice_alignment);
}

GgufModel model_of(const bench::RouteTrace& trace) {
  GgufModel model;
  model.paths = {trace.name};
  model.facts.expert_used_count = trace.layers.front().used;
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < trace.layers.size(); ++i) {
    const ExpertLayer& layer = trace.layers[i];
    for (const std::string_view part : part_names) {
      GgufTensor tensor{.name = fmt::format("blk.{}.{}.weight", i, part),
                        .type = type_i8,
                        .ne = {slice_bytes(layer), 1, layer.experts, 1},
                        .offset = offset,
                        .bytes = slice_bytes(layer) * layer.experts};
      offset += tensor.bytes;
      model.tensors.push_back(std::move(tensor));
    }
  }
  model.by_name.resize(model.tensors.size());
  std::iota(model.by_name.begin(), model.by_name.end(), 0U);
  std::ranges::sort(model.by_name, {}, [&](std::uint32_t i) { return model.tensors[i].name; });
  return model;
}

// A budget in bytes is what the door would be given; one in token cycles is made to leave so much for experts.
Result<WeightPlan> plan_of(const GgufModel& model, const bench::RouteTrace& trace, const nand::Serving& serving) {
  std::uint64_t budget = serving.memory_bytes;
  if (budget == 0) {
    std::uint64_t cycle = 0;
    for (const ExpertLayer& layer : trace.layers) cycle += part_names.size() * slice_bytes(layer) * layer.used;
    budget = static_cast<std::uint64_t>(std::llround(serving.cycles * static_cast<double>(cycle)));
    const auto least = make_plan(model, {.mode = PlanMode::on, .budget_bytes = model.tensor_bytes() * 2});
    if (least) budget = std::max(budget, least->least_budget);
  }
  auto plan = make_plan(model, {.mode = PlanMode::on, .budget_bytes = budget});
  if (plan && !plan->active) return fail(Code::invalid, "{}: {}", trace.name, plan->reason);
  return plan;
}

}  // namespace

std::uint64_t ExpertDecoding::file_bytes(const bench::RouteTrace& trace) {
  return model_of(trace).tensor_bytes();
}

Status ExpertDecoding::preload(nand::NandDevice& drive, FileIndex file, const bench::RouteTrace& trace) {
  std::vector<std::byte> bytes(MiB);
  const std::uint64_t end = file_bytes(trace);
  for (std::uint64_t at = 0; at < end; at += bytes.size()) {
    bytes.resize(std::min<std::uint64_t>(bytes.size(), end - at));
    nand::generate(nand::seed_word(weights_seed), at, bytes);
    if (auto put = drive.preload(file, at, bytes); !put) return put;
  }
  return {};
}

Result<std::unique_ptr<ExpertDecoding>> ExpertDecoding::create(Node& node, Device& device, const Clock& clock,
                                                               const bench::RouteTrace& trace,
                                                               const nand::Serving& serving) {
  GgufModel model = model_of(trace);
  auto plan = plan_of(model, trace, serving);
  if (!plan) return fail(plan.error());
  auto arena = Arena::reserve(plan->arena_bytes, Arena::Pages::large);
  if (!arena) return fail(arena.error());
  auto loader = Loader::create(device, clock);
  if (!loader) return fail(loader.error());
  return std::unique_ptr<ExpertDecoding>(new ExpertDecoding(node, clock, trace, serving, std::move(model),
                                                            std::move(*plan), std::move(*arena), std::move(*loader)));
}

ExpertDecoding::ExpertDecoding(Node& node, const Clock& clock, const bench::RouteTrace& trace,
                               const nand::Serving& serving, GgufModel model, WeightPlan plan, Arena arena,
                               Loader loader)
    : node_(node),
      clock_(clock),
      trace_(trace),
      serving_(serving),
      model_(std::move(model)),
      plan_(std::move(plan)),
      arena_(std::move(arena)),
      loader_(std::move(loader)),
      store_(model_, plan_, arena_, loader_, eviction_policies().front(), {}),
      tokens_(trace.decode_steps) {
  if (serving.tokens != 0) tokens_ = std::min(tokens_, serving.tokens);
}

// The engine computes: others act, and what arrives makes room for more.
void ExpertDecoding::pass(Nanos time) {
  const Nanos end = clock_.now() + time;
  while (clock_.now() < end) {
    node_.advance(end);
    loader_.poll();
  }
}

Status ExpertDecoding::prompt() {
  const Nanos start = clock_.now();
  const double seconds = static_cast<double>(serving_.prompt) / serving_.prefill;
  const Nanos each(static_cast<std::int64_t>(seconds * 1e9 / static_cast<double>(trace_.layers.size())));
  loader_.set_long_computes(true);
  for (std::size_t i = 0; i < trace_.layers.size(); ++i) {
    std::vector<ExpertIndex> all(trace_.layers[i].experts);
    std::iota(all.begin(), all.end(), 0U);
    if (auto done = layer(i, all, all.size(), true, each); !done) return done;
  }
  loader_.set_long_computes(false);
  report_.first_token.add((clock_.now() - start).count());
  report_.prompt_tokens += serving_.prompt;
  report_.machine_seconds += static_cast<double>((clock_.now() - start).count()) * 1e-9;
  return {};
}

Status ExpertDecoding::decode(std::uint64_t token) {
  const Nanos start = clock_.now();
  const Nanos each(static_cast<std::int64_t>(1e9 / serving_.decode / static_cast<double>(trace_.layers.size())));
  for (std::size_t i = 0; i < trace_.layers.size(); ++i) {
    const std::size_t used = trace_.layers[i].used;
    const auto experts = std::span(trace_.decode[i]).subspan(token * used, used);
    if (auto done = layer(i, experts, used, false, each); !done) return done;
  }
  const double seconds = static_cast<double>((clock_.now() - start).count()) * 1e-9;
  ++report_.decoded_tokens;
  report_.decode_seconds += seconds;
  report_.machine_seconds += seconds;
  return {};
}

Status ExpertDecoding::layer(std::size_t layer, std::span<const ExpertIndex> experts, std::size_t per_token, bool many,
                             Nanos compute) {
  const std::size_t parts = plan_.layers[layer].parts.size();
  store_.route({.layer = layer, .experts = experts, .by_token = experts, .per_token = per_token, .many = many});
  for (std::size_t part = 0; part < parts; ++part) {
    if (auto done = this->part(layer, part, experts); !done) return done;
    pass(compute / parts);
  }
  return {};
}

// One node of the graph: waits until every expert was there, and looks at it.
Status ExpertDecoding::part(std::size_t layer, std::size_t part, std::span<const ExpertIndex> experts) {
  std::vector<std::size_t> left(experts.size());
  std::iota(left.begin(), left.end(), 0U);
  while (!left.empty()) {
    std::size_t requested = 0, ready = 0;
    for (const std::size_t i : left) {
      requested += store_.request(part, i, true) ? 1 : 0;
      if (store_.failed(part, i)) return fail(loader_.last_error());
      ready += store_.ready(part, i) ? 1 : 0;
    }
    if (requested == left.size()) store_.read_ahead(part);
    if (ready == 0) loader_.wait();
    Status compared;
    std::erase_if(left, [&](std::size_t i) {
      if (!compared || !store_.ready(part, i)) return false;
      compared = compare(layer, part, i, experts[i]);
      store_.release(part, i);
      return true;
    });
    if (!compared) return compared;
  }
  return {};
}

// Once for each place that an expert is loaded to.
Status ExpertDecoding::compare(std::size_t layer, std::size_t part, std::size_t i, ExpertIndex expert) {
  const GgufTensor& tensor = model_.tensors[plan_.layers[layer].parts[part].tensor];
  const std::byte* place = store_.base(layer, part) + store_.index(part, i) * store_.stride(layer, part);
  const std::uint64_t offset = tensor.offset + expert * tensor.matrix_bytes();
  std::uint64_t& known = compared_[place];
  if (known == offset + 1) return {};
  const std::uint64_t word = nand::seed_word(weights_seed) + offset / sizeof(word) * nand::generated_step;
  if (!nand::is_generated(word, {place, tensor.matrix_bytes()})) {
    return fail(Code::corrupt, "{}: expert {} at offset {} came with other bytes", tensor.name, expert, offset);
  }
  known = offset + 1;
  report_.weights_checked += tensor.matrix_bytes();
  return {};
}

}  // namespace artesian::sim
