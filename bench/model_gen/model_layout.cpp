#include "bench/model_gen/model_layout.h"

#include <algorithm>
#include <cmath>

#include "bench/model_gen/random_weights.h"

namespace artesian {
namespace {

constexpr ModelArch archs[] = {
    {"llama", "dense, as Llama and SmolLM2"},
    {"mixtral", "llama with experts, as Mixtral"},
    {"olmoe", "experts, norms over whole queries and keys"},
    {"qwen3moe", "experts, norms of each head"},
    {"qwen2moe", "experts and a shared expert with a gate"},
    {"deepseek2", "latent attention, a dense first layer, experts and a shared one; --fused for gate+up in one tensor"},
    {"gpt-oss", "experts and attention with biases, sinks, a sliding window; for --type MXFP4"},
};

const GgmlType& type_named(std::string_view name) {
  return *find_ggml_type(name);
}

// Adds tensors one by one, with the type that fits each.
class LayoutBuilder {
 public:
  explicit LayoutBuilder(const ModelSpec& spec) : spec_(spec) {
    const bool flat = spec.routing == Routing::flat;
    // Logits of deviation 2: at a temperature of .8 about a hundred tokens are likely, so text varies and bits matter.
    const double logits = 2.0 / std::sqrt(spec.width);
    embedding_ = spec.tied ? logits : 1.0;
    output_ = logits;
    // What a layer adds to the stream, beside an embedding of deviation 1. Flat routing: so little that routers see the
    // token alone. Random: so much that half of a layer's experts take about 3/4 of a text's tokens, as in real models;
    // with 1 they take 98 %, which would flatter any cache.
    added_ = flat ? 0.1 * embedding_ : 0.65 * embedding_;
  }

  ModelLayout take() { return std::move(layout_); }
  GgufPlan& plan() { return layout_.plan; }

  void key(std::string_view name, std::uint32_t value) { plan().add_u32(arch_key(name), value); }
  void key_f32(std::string_view name, float value) { plan().add_f32(arch_key(name), value); }

  void layer(std::uint32_t index) { layer_ = index; }
  std::uint32_t layer() const { return layer_; }

  void embedding(std::uint64_t vocab) { add("token_embd.weight", side_type(), embedding_, {spec_.width, vocab}); }
  void output(std::uint64_t vocab) {
    add("output.weight", side_type(spec_.type == "mixed" ? "Q6_K" : spec_.type), output_, {spec_.width, vocab});
  }
  void norm(std::string_view name, std::uint64_t size) { constant(blk(name, "weight"), 1.0F, size); }
  void output_norm() { constant("output_norm.weight", 1.0F, spec_.width); }
  void bias(std::string_view name, std::uint64_t size) { add(blk(name, "bias"), type_named("F32"), 0.1, {size}); }
  void biases(std::string_view name, std::uint64_t size) {
    add(blk(name, "bias"), type_named("F32"), 0.1, {size, spec_.experts});
  }
  void vector(std::string_view name, std::uint64_t size, double deviation) {
    add(blk(name, "weight"), type_named("F32"), deviation, {size});
  }
  void router() {
    add(blk("ffn_gate_inp", "weight"), type_named("F32"), 1.0 / std::sqrt(spec_.width), {spec_.width, spec_.experts});
  }

  // Dense matrices, from `in` to `out`; `adds`: its product is added to the stream.
  void matrix(std::string_view name, std::uint64_t in, std::uint64_t out, bool adds = false) {
    add(blk(name, "weight"), side_type(), deviation(in, adds), {in, out});
  }
  void matrices(std::string_view name, std::uint64_t in, std::uint64_t out, std::uint64_t count) {
    add(blk(name, "weight"), side_type(), deviation(in, false), {in, out, count});
  }
  void experts(std::string_view name, std::uint64_t in, std::uint64_t out, bool down = false) {
    const bool six = spec_.type == "mixed" && down && layer_ % 2 == 0;
    const std::string_view wanted = six ? "Q6_K" : spec_.type == "mixed" ? "Q4_K" : std::string_view(spec_.type);
    add(blk(name, "weight"), fitting(wanted, in), deviation(in, down), {in, out, spec_.experts});
  }

 private:
  std::string arch_key(std::string_view name) const {
    return fmt::format("{}.{}", spec_.arch == "mixtral" ? "llama" : spec_.arch, name);
  }
  std::string blk(std::string_view name, std::string_view kind) const {
    return fmt::format("blk.{}.{}.{}", layer_, name, kind);
  }
  double deviation(std::uint64_t in, bool adds) const {
    return (adds ? added_ : 1.0) / std::sqrt(static_cast<double>(in));
  }

  // As llama-quantize does it, a row that is not whole blocks takes a smaller one.
  static const GgmlType& fitting(std::string_view wanted, std::uint64_t in) {
    for (std::string_view name : {wanted, std::string_view("Q8_0")}) {
      if (in % type_named(name).block_elements == 0) return type_named(name);
    }
    return type_named("F16");
  }
  // Matrices that are not experts: MXFP4 is for experts only.
  const GgmlType& side_type(std::string_view wanted) const {
    return fitting(wanted == "MXFP4" ? "Q8_0" : wanted, spec_.width);
  }
  const GgmlType& side_type() const { return side_type(spec_.type == "mixed" ? "Q4_K" : spec_.type); }

  void constant(const std::string& name, float value, std::uint64_t size) {
    plan().add_tensor(name, type_named("F32").id, {size});
    layout_.fills[name] = {.constant = true, .value = value, .deviation = 0};
  }
  void add(const std::string& name, const GgmlType& type, double deviation, std::initializer_list<std::uint64_t> ne) {
    const GgmlType& fits = *ne.begin() % type.block_elements == 0 ? type : fitting(type.name, *ne.begin());
    plan().add_tensor(name, fits.id, ne);
    layout_.fills[name] = {.constant = false, .value = 0, .deviation = deviation};
  }

  const ModelSpec& spec_;
  ModelLayout layout_;
  std::uint32_t layer_ = 0;
  double embedding_ = 1;
  double output_ = 1;
  double added_ = 1;
};

std::uint32_t head_size(const ModelSpec& spec) {
  return spec.head_size != 0 ? spec.head_size : spec.width / spec.heads;
}
bool has_experts(const ModelSpec& spec) {
  return spec.arch != "llama";
}

// deepseek2's latent sizes, from the head size.
struct Latent {
  explicit Latent(const ModelSpec& spec)
      : nope(head_size(spec) / 2),
        rope(head_size(spec) / 2),
        value(head_size(spec)),
        kv(2 * head_size(spec)),
        q(spec.width / 2) {}
  std::uint32_t nope, rope, value, kv, q;
};

void add_metadata(const ModelSpec& spec, LayoutBuilder& out) {
  const std::string arch = spec.arch == "mixtral" ? "llama" : spec.arch;
  out.plan().add_string("general.architecture", arch);
  out.plan().add_string("general.type", "model");
  out.plan().add_string("general.name",
                        fmt::format("random {} of {} layers, seed {}", spec.arch, spec.layers, spec.seed));
  out.key("block_count", spec.layers);
  out.key("context_length", spec.context);
  out.key("embedding_length", spec.width);
  out.key("feed_forward_length", spec.ff);
  out.key("vocab_size", spec.vocab);
  out.key("attention.head_count", spec.heads);
  out.key_f32("attention.layer_norm_rms_epsilon", 1e-5F);
  out.key_f32("rope.freq_base", 100000.0F);
  if (spec.arch == "deepseek2") {
    const Latent latent(spec);
    out.key("attention.head_count_kv", 1);  // all heads share the latent
    out.key("attention.key_length", latent.kv + latent.rope);
    out.key("attention.value_length", latent.kv);
    out.key("attention.key_length_mla", latent.nope + latent.rope);
    out.key("attention.value_length_mla", latent.value);
    out.key("attention.q_lora_rank", latent.q);
    out.key("attention.kv_lora_rank", latent.kv);
    out.key("rope.dimension_count", latent.rope);
    out.key("leading_dense_block_count", 1);
    out.key("expert_shared_count", 1);
    out.key_f32("expert_weights_scale", 1.0F);
  } else {
    out.key("attention.head_count_kv", spec.kv_heads);
    out.key("attention.key_length", head_size(spec));
    out.key("attention.value_length", head_size(spec));
    out.key("rope.dimension_count", head_size(spec));
  }
  if (spec.arch == "gpt-oss") out.key("attention.sliding_window", 128);
  if (spec.arch == "qwen2moe") out.key("expert_shared_feed_forward_length", spec.ff);
  if (has_experts(spec)) {
    out.key("expert_count", spec.experts);
    out.key("expert_used_count", spec.used);
    out.key("expert_feed_forward_length", spec.ff);
  }
}

void add_attention(const ModelSpec& spec, LayoutBuilder& out) {
  const std::uint64_t head = head_size(spec);
  const std::uint64_t q = head * spec.heads;
  const std::uint64_t kv = head * spec.kv_heads;
  out.norm("attn_norm", spec.width);
  out.matrix("attn_q", spec.width, q);
  out.matrix("attn_k", spec.width, kv);
  out.matrix("attn_v", spec.width, kv);
  out.matrix("attn_output", q, spec.width, true);
  if (spec.arch == "qwen3moe") {
    out.norm("attn_q_norm", head);
    out.norm("attn_k_norm", head);
  } else if (spec.arch == "olmoe") {
    out.norm("attn_q_norm", q);
    out.norm("attn_k_norm", kv);
  } else if (spec.arch == "gpt-oss") {
    out.bias("attn_q", q);
    out.bias("attn_k", kv);
    out.bias("attn_v", kv);
    out.bias("attn_output", spec.width);
    out.vector("attn_sinks", spec.heads, 1.0);
  }
}

void add_latent_attention(const ModelSpec& spec, LayoutBuilder& out) {
  const Latent latent(spec);
  out.norm("attn_norm", spec.width);
  out.norm("attn_q_a_norm", latent.q);
  out.norm("attn_kv_a_norm", latent.kv);
  out.matrix("attn_q_a", spec.width, latent.q);
  out.matrix("attn_q_b", latent.q, std::uint64_t{spec.heads} * (latent.nope + latent.rope));
  out.matrix("attn_kv_a_mqa", spec.width, latent.kv + latent.rope);
  out.matrices("attn_k_b", latent.nope, latent.kv, spec.heads);
  out.matrices("attn_v_b", latent.kv, latent.value, spec.heads);
  out.matrix("attn_output", std::uint64_t{spec.heads} * latent.value, spec.width, true);
}

void add_dense_ffn(const ModelSpec& spec, LayoutBuilder& out) {
  out.matrix("ffn_gate", spec.width, spec.ff);
  out.matrix("ffn_up", spec.width, spec.ff);
  out.matrix("ffn_down", spec.ff, spec.width, true);
}

void add_experts(const ModelSpec& spec, LayoutBuilder& out) {
  out.router();
  if (spec.fused) {
    out.experts("ffn_gate_up_exps", spec.width, 2ULL * spec.ff);
  } else {
    out.experts("ffn_gate_exps", spec.width, spec.ff);
    out.experts("ffn_up_exps", spec.width, spec.ff);
  }
  out.experts("ffn_down_exps", spec.ff, spec.width, true);
  if (spec.arch == "gpt-oss") {
    out.bias("ffn_gate_inp", spec.experts);
    out.biases("ffn_gate_exps", spec.ff);
    out.biases("ffn_up_exps", spec.ff);
    out.biases("ffn_down_exps", spec.width);
  }
  if (spec.arch == "qwen2moe" || spec.arch == "deepseek2") {
    if (spec.arch == "qwen2moe") out.vector("ffn_gate_inp_shexp", spec.width, 1.0 / std::sqrt(spec.width));
    out.matrix("ffn_gate_shexp", spec.width, spec.ff);
    out.matrix("ffn_up_shexp", spec.width, spec.ff);
    out.matrix("ffn_down_shexp", spec.ff, spec.width, true);
  }
}

}  // namespace

std::span<const ModelArch> model_archs() {
  return archs;
}

Status check_spec(const ModelSpec& spec) {
  const auto known = std::ranges::find(archs, spec.arch, &ModelArch::name);
  if (known == std::end(archs)) return fail(Code::invalid, "--arch {}: there is no such architecture", spec.arch);
  const GgmlType* type = find_ggml_type(spec.type);
  if (spec.type != "mixed" && (type == nullptr || !can_fill(type->id))) {
    return fail(Code::invalid, "--type {}: cannot be generated", spec.type);
  }
  for (const auto& [option, value] :
       {std::pair{"--layers", spec.layers}, std::pair{"--width", spec.width}, std::pair{"--ff", spec.ff},
        std::pair{"--heads", spec.heads}, std::pair{"--kv-heads", spec.kv_heads}, std::pair{"--shards", spec.shards}}) {
    constexpr std::uint32_t size_max = 1U << 20U;
    if (value == 0 || value > size_max) return fail(Code::invalid, "{} {}: takes 1 to {}", option, value, size_max);
  }
  if (spec.heads % spec.kv_heads != 0) {
    return fail(Code::invalid, "--kv-heads {}: must divide --heads {}", spec.kv_heads, spec.heads);
  }
  if (spec.head_size == 0 && spec.width % spec.heads != 0) {
    return fail(Code::invalid, "--heads {}: must divide --width {} where there is no --head-size", spec.heads,
                spec.width);
  }
  if (head_size(spec) % 4 != 0) return fail(Code::invalid, "--head-size {}: must be a multiple of 4", head_size(spec));
  if (has_experts(spec) && (spec.used == 0 || spec.used > spec.experts || spec.experts > 512)) {
    return fail(Code::invalid, "--used {} of --experts {}: takes 1 up to the experts, at most 512", spec.used,
                spec.experts);
  }
  if (spec.fused && spec.arch != "deepseek2")
    return fail(Code::invalid, "--fused: llama.cpp knows it for deepseek2 only, of ours");
  if (spec.tied && (spec.arch == "olmoe" || spec.arch == "qwen2moe" || spec.arch == "gpt-oss")) {
    return fail(Code::invalid, "--tied: {} needs an output matrix of its own", spec.arch);
  }
  if ((spec.arch == "olmoe" || spec.arch == "qwen2moe") && head_size(spec) * spec.heads != spec.width) {
    return fail(Code::invalid, "--head-size {}: {} has heads of width / heads", spec.head_size, spec.arch);
  }
  if (spec.arch == "olmoe" && spec.kv_heads != spec.heads) {
    return fail(Code::invalid, "--kv-heads {}: olmoe has as many as --heads", spec.kv_heads);
  }
  return {};
}

ModelLayout lay_out(const ModelSpec& spec) {
  LayoutBuilder out(spec);
  add_metadata(spec, out);
  out.embedding(spec.vocab);
  for (std::uint32_t i = 0; i < spec.layers; ++i) {
    out.layer(i);
    spec.arch == "deepseek2" ? add_latent_attention(spec, out) : add_attention(spec, out);
    out.norm(spec.arch == "gpt-oss" ? "post_attention_norm" : "ffn_norm", spec.width);
    const bool dense = !has_experts(spec) || (spec.arch == "deepseek2" && i == 0);
    dense ? add_dense_ffn(spec, out) : add_experts(spec, out);
  }
  out.output_norm();
  if (!spec.tied) out.output(spec.vocab);
  return out.take();
}

}  // namespace artesian
