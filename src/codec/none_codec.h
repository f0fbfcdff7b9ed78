// Blocks as they are: what does not shrink is stored under this.
#pragma once

#include "codec/codec.h"

namespace artesian {

class NoneCodec final : public Codec {
 public:
  std::optional<std::size_t> encode(ElementType type, std::span<const std::byte> raw,
                                    std::span<std::byte> out) override;
  Status decode(std::span<const std::byte> stored, std::span<std::byte> raw) override;
};

}  // namespace artesian
