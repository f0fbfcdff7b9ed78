#include "codec/none_codec.h"

#include <algorithm>

namespace artesian {

std::optional<std::size_t> NoneCodec::encode(ElementType /*type*/, std::span<const std::byte> /*raw*/,
                                             std::span<std::byte> /*out*/) {
  return std::nullopt;
}

Status NoneCodec::decode(std::span<const std::byte> stored, std::span<std::byte> raw) {
  if (stored.size() != raw.size()) {
    return fail(Code::corrupt, "codec none: {} bytes stored for a block of {}", stored.size(), raw.size());
  }
  std::ranges::copy(stored, raw.begin());
  return {};
}

}  // namespace artesian
