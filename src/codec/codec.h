// Lossless compression of KV blocks, extent by extent. Which codec a record was written with stands in the record (one
// byte); all else that decoding needs is in the stored bytes. A new codec is one pair of files and one row in the
// registry (codec.cpp); the suite over all rows is codec_test.cpp.
//
// Threads: a Codec keeps memory between calls and belongs to one thread at a time; decoders on several threads have one
// each. Memory: bounded, whatever the size of the block. Deterministic: the same bytes in give the same bytes out, with
// the same version of the library beneath.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"

namespace artesian {

// The byte in the record; never given to another codec.
enum class CodecId : std::uint8_t { none = 0, exponent = 1 };

// What the block's bytes are, as far as a codec can use it. The numbers are in stored bytes, too.
enum class ElementType : std::uint8_t { unknown = 0, bf16 = 1, fp16 = 2, fp8_e4m3 = 3, fp8_e5m2 = 4 };

class Codec {
 public:
  virtual ~Codec() = default;

  // Writes to the beginning of `out`, which is at least as large as `raw` and apart from it, and returns the bytes
  // written; always fewer than `raw`. Nothing if the block does not shrink by enough to be worth decoding: keep it raw,
  // under CodecId::none (what was written to `out` is of no use then).
  virtual std::optional<std::size_t> encode(ElementType type, std::span<const std::byte> raw,
                                            std::span<std::byte> out) = 0;

  // The whole block, of raw.size() bytes. Any bytes may come in; Code::corrupt (with what and where) if they are not
  // what encode makes of a block of this size. `raw` holds nothing of use then.
  virtual Status decode(std::span<const std::byte> stored, std::span<std::byte> raw) = 0;
};

struct CodecInfo {
  CodecId id;
  std::string_view name;     // "exponent"
  std::string_view summary;  // one line for --help
  std::unique_ptr<Codec> (*make)();
};

// The registry.
std::span<const CodecInfo> codecs();
const CodecInfo* find_codec(CodecId id);
const CodecInfo* find_codec(std::string_view name);

// "bf16", "fp16", "fp8_e4m3", "fp8_e5m2" (also "fp8", which is e4m3, and "bfloat16", "float16", "half"); unknown else.
ElementType element_type(std::string_view name);

}  // namespace artesian
