// Roles of tensors from their names.
#include <charconv>

#include "format/gguf_model.h"

namespace artesian {
namespace {

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Cuts the text up to the next dot off the front.
std::string_view next_word(std::string_view& text) {
  const std::size_t dot = text.find('.');
  const std::string_view word = text.substr(0, dot);
  text = dot == std::string_view::npos ? std::string_view{} : text.substr(dot + 1);
  return word;
}

struct Row {
  std::string_view word;
  TensorPart part;
};
constexpr Row words[] = {
    {"ffn_gate_exps", TensorPart::expert_gate},
    {"ffn_up_exps", TensorPart::expert_up},
    {"ffn_down_exps", TensorPart::expert_down},
    {"ffn_gate_up_exps", TensorPart::expert_gate_up},
    {"ffn_gate_inp", TensorPart::router},
    {"exp_probs_b", TensorPart::router},
    {"ffn_gate_inp_shexp", TensorPart::shared_expert},
    {"ffn_gate_shexp", TensorPart::shared_expert},
    {"ffn_up_shexp", TensorPart::shared_expert},
    {"ffn_down_shexp", TensorPart::shared_expert},
    {"ffn_gate", TensorPart::ffn},
    {"ffn_up", TensorPart::ffn},
    {"ffn_down", TensorPart::ffn},
    {"token_embd", TensorPart::embedding},
    {"output", TensorPart::output},
};

TensorPart part_of(std::string_view word) {
  for (const Row& row : words) {
    if (row.word == word) return row.part;
  }
  if (word.ends_with("_norm") || word.find("_norm_") != std::string_view::npos) return TensorPart::norm;
  if (word.starts_with("attn_")) return TensorPart::attention;
  return TensorPart::other;
}

}  // namespace

std::string_view part_name(TensorPart part) {
  constexpr std::string_view names[] = {"expert gate", "expert up",     "expert down", "expert gate+up", "expert bias",
                                        "router",      "shared expert", "ffn",         "attention",      "embedding",
                                        "output",      "norm",          "other"};
  return names[static_cast<std::size_t>(part)];
}

TensorRole classify(std::string_view tensor_name) {
  TensorRole role;
  std::string_view rest = tensor_name;
  std::string_view word = next_word(rest);
  if (word == "blk") {
    role.layer = number(next_word(rest));
    word = next_word(rest);
  }
  role.part = part_of(word);
  role.weight = rest == "weight";
  if (role.part == TensorPart::ffn && rest != "weight" && rest.ends_with(".weight")) {
    role.expert = number(next_word(rest));
    role.weight = true;
    if (!role.expert) role.part = TensorPart::other;
    if (role.expert && word == "ffn_gate") role.part = TensorPart::expert_gate;
    if (role.expert && word == "ffn_up") role.part = TensorPart::expert_up;
    if (role.expert && word == "ffn_down") role.part = TensorPart::expert_down;
  }
  if (is_routed_expert(role.part) && !role.weight) role.part = TensorPart::expert_small;
  if (is_routed_expert(role.part) && !role.layer) role.part = TensorPart::other;
  return role;
}

}  // namespace artesian
