// The exponents of floating point numbers take few values: they are coded by zstd with Huffman codes and without
// matches, sign and mantissa follow as they are. Stored bytes, little-endian:
//
//   0  1  version: 1
//   1  1  ElementType
//   2  2  zero
//   then for each 256 KiB of the block (fp8_e5m2: 128 KiB), the last one shorter:
//      u32  bytes of the coded plane as stored; the plane's own size: stored as it is
//      …    the coded plane: a zstd frame of that plane
//      …    the rest plane, as it is (see planes.h; fp8_e5m2 has none: an element is coded whole)
//   then what is left of the block behind the last pair of bytes
//
// Memory: under 1 MiB for each instance, libzstd's included.
#pragma once

#include <vector>

#include "codec/codec.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace artesian {

class ExponentCodec final : public Codec {
 public:
  ExponentCodec();
  ~ExponentCodec() override;
  ExponentCodec(const ExponentCodec&) = delete;
  ExponentCodec& operator=(const ExponentCodec&) = delete;

  std::optional<std::size_t> encode(ElementType type, std::span<const std::byte> raw,
                                    std::span<std::byte> out) override;
  Status decode(std::span<const std::byte> stored, std::span<std::byte> raw) override;

 private:
  struct Free {
    void operator()(ZSTD_CCtx_s* context) const;
    void operator()(ZSTD_DCtx_s* context) const;
  };
  std::unique_ptr<ZSTD_CCtx_s, Free> encoder_;  // made at first use; null where there is no memory for it
  std::unique_ptr<ZSTD_DCtx_s, Free> decoder_;
  std::vector<std::uint8_t> plane_;  // one coded plane
};

}  // namespace artesian
