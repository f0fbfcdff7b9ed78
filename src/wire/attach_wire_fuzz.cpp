// Frames of an attached process, and of an owner, as hostile bytes: what is decoded is encoded to the same bytes.
#include <algorithm>
#include <cstdlib>

#include "wire/attach_wire.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace artesian::attach;
  const std::span body(reinterpret_cast<const std::byte*>(data), size);
  const auto same = [&](const std::vector<std::byte>& frame) {
    if (!std::ranges::equal(std::span(frame).subspan(length_bytes), body)) std::abort();
  };
  if (const auto request = decode_request(body)) same(encode(*request));
  // An answer's text of an error that is none is not kept, so only whole ones come back the same.
  if (const auto reply = decode_reply(body)) same(encode(*reply));
  return 0;
}
