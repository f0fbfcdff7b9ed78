// libFuzzer: no stored bytes may crash a decoder or make it write past the block, and what a codec encodes it gives
// back. The first byte chooses codec, type and direction, two more the size of the block to decode.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "codec/codec.h"

namespace {

using namespace artesian;

void require(bool holds) {
  if (!holds) std::abort();
}

void decode(Codec& codec, std::size_t size, std::span<const std::byte> stored) {
  std::vector<std::byte> raw(size);  // of just that size: AddressSanitizer watches its end
  const Status status = codec.decode(stored, raw);
  require(status || (status.error().code == Code::corrupt && !status.error().message.empty()));
}

void there_and_back(Codec& codec, ElementType type, std::span<const std::byte> raw) {
  std::vector<std::byte> out(raw.size());
  const auto bytes = codec.encode(type, raw, out);
  if (!bytes) return;
  require(*bytes < raw.size());
  std::vector<std::byte> again(raw.size());
  require(codec.decode(std::span(out).first(*bytes), again).has_value());
  require(std::equal(raw.begin(), raw.end(), again.begin()));
  decode(codec, raw.size() + 1, std::span(out).first(*bytes));
  for (std::size_t at = 0; at < *bytes; at += 1 + *bytes / 16) {
    out[at] ^= std::byte{0x10};
    decode(codec, raw.size(), std::span(out).first(*bytes));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  if (bytes < 3) return 0;
  static const auto codec_list = codecs();
  static std::vector<std::unique_ptr<Codec>> made;
  if (made.empty()) {
    for (const CodecInfo& info : codec_list) made.push_back(info.make());
  }
  Codec& codec = *made[data[0] % made.size()];
  const auto rest = std::as_bytes(std::span(data, bytes)).subspan(3);
  if (data[0] < 128) {
    decode(codec, static_cast<std::size_t>(data[1] << 8 | data[2]), rest);
  } else {
    there_and_back(codec, static_cast<ElementType>(data[1] % 5), rest);
  }
  return 0;
}
