#include "codec/codec.h"

#include <algorithm>
#include <array>

#include "codec/exponent_codec.h"
#include "codec/none_codec.h"

namespace artesian {
namespace {

template <typename T>
std::unique_ptr<Codec> make() {
  return std::make_unique<T>();
}

constexpr std::array registry{
    CodecInfo{CodecId::none, "none", "blocks are stored as they are", make<NoneCodec>},
    CodecInfo{CodecId::exponent, "exponent", "BF16, FP16 and FP8: exponents Huffman coded, the rest as it is",
              make<ExponentCodec>},
};

struct TypeName {
  std::string_view name;
  ElementType type;
};
constexpr std::array type_names{
    TypeName{"bf16", ElementType::bf16},         TypeName{"bfloat16", ElementType::bf16},
    TypeName{"fp16", ElementType::fp16},         TypeName{"f16", ElementType::fp16},
    TypeName{"float16", ElementType::fp16},      TypeName{"half", ElementType::fp16},
    TypeName{"fp8", ElementType::fp8_e4m3},      TypeName{"fp8_e4m3", ElementType::fp8_e4m3},
    TypeName{"fp8_e5m2", ElementType::fp8_e5m2},
};

}  // namespace

std::span<const CodecInfo> codecs() {
  return registry;
}

const CodecInfo* find_codec(CodecId id) {
  const auto* const found = std::ranges::find(registry, id, &CodecInfo::id);
  return found == registry.end() ? nullptr : found;
}

const CodecInfo* find_codec(std::string_view name) {
  const auto* const found = std::ranges::find(registry, name, &CodecInfo::name);
  return found == registry.end() ? nullptr : found;
}

ElementType element_type(std::string_view name) {
  const auto* const found = std::ranges::find(type_names, name, &TypeName::name);
  return found == type_names.end() ? ElementType::unknown : found->type;
}

}  // namespace artesian
