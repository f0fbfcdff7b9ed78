#include "stream/routers.h"

#include <bit>
#include <cstring>
#include <map>

namespace artesian {
namespace {

constexpr std::uint32_t type_f32 = 0, type_f16 = 1, type_bf16 = 30;

float from_f16(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16, exponent = (half >> 10) & 31U, fraction = half & 1023U;
  if (exponent == 0) {
    const float tiny = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -tiny : tiny;
  }
  const std::uint32_t bits = exponent == 31 ? 0xffU : exponent + 112;
  return std::bit_cast<float>(sign | bits << 23 | fraction << 13);
}

class Reader {
 public:
  Reader(const GgufModel& model, const OpenSource& open) : model_(model), open_(open) {}

  // All elements as floats; empty if there is no such tensor, or it cannot be read.
  std::vector<float> read(const std::string& name) {
    const GgufTensor* tensor = model_.find(name);
    if (tensor == nullptr) return {};
    const std::size_t size = tensor->type == type_f32                                ? 4
                             : tensor->type == type_f16 || tensor->type == type_bf16 ? 2
                                                                                     : 0;
    if (size == 0 || tensor->bytes % size != 0) return {};
    std::vector<std::byte> bytes(tensor->bytes);
    ByteSource* file = source(tensor->file);
    if (file == nullptr || !file->read(tensor->offset, bytes)) return {};
    std::vector<float> values(bytes.size() / size);
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint32_t word = 0;
      std::memcpy(&word, &bytes[i * size], size);
      const auto half = static_cast<std::uint16_t>(word);
      values[i] = tensor->type == type_f16 ? from_f16(half) : std::bit_cast<float>(size == 2 ? word << 16 : word);
    }
    return values;
  }

 private:
  ByteSource* source(std::uint32_t file) {
    auto& slot = files_[file];
    if (slot == nullptr) {
      if (auto opened = open_(model_.paths[file])) slot = std::move(*opened);
    }
    return slot.get();
  }

  const GgufModel& model_;
  const OpenSource& open_;
  std::map<std::uint32_t, std::unique_ptr<ByteSource>> files_;
};

// The norm before a layer's experts goes by one of these names.
std::vector<float> read_norm(Reader& reader, std::uint32_t layer) {
  for (const char* name : {"ffn_norm", "post_attention_norm"}) {
    auto norm = reader.read(fmt::format("blk.{}.{}.weight", layer, name));
    if (!norm.empty()) return norm;
  }
  return {};
}

// What an input that one layer's norm has scaled must be multiplied with to look as if the next one's had.
std::vector<float> factors_between(const std::vector<float>& before, const std::vector<float>& norm,
                                   std::size_t width) {
  std::vector<float> factors(width, 1.0F);
  if (before.size() != width || norm.size() != width) return factors;
  for (std::size_t i = 0; i < width; ++i) factors[i] = before[i] != 0 ? norm[i] / before[i] : 0.0F;
  return factors;
}

}  // namespace

RouterGuess read_routers(const GgufModel& model, const WeightPlan& plan, const OpenSource& open) {
  RouterGuess guess;
  Reader reader(model, open);
  std::vector<float> before;
  for (std::size_t layer = 0; layer < plan.layers.size(); ++layer) {
    const std::uint32_t number = plan.layers[layer].layer;
    std::vector<float> norm = read_norm(reader, number);
    const std::vector<float> weights = reader.read(fmt::format("blk.{}.ffn_gate_inp.weight", number));
    const std::size_t width = weights.size() / plan.layers[layer].experts;
    if (width > 0 && weights.size() == width * plan.layers[layer].experts) {
      const auto bias = reader.read(fmt::format("blk.{}.ffn_gate_inp.bias", number));
      guess.add_layer(layer, weights, factors_between(before, norm, width), bias);
    }
    before = std::move(norm);
  }
  return guess;
}

}  // namespace artesian
