#include "codec/exponent_codec.h"

// For the literals' mode: the one parameter without which zstd's fast strategy would not code them at all.
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/units.h"
#include "codec/planes.h"

namespace artesian {
namespace {

constexpr std::uint8_t version = 1;
constexpr std::size_t header_bytes = 4;
constexpr std::size_t plane_bytes_max = ZSTD_BLOCKSIZE_MAX;  // one zstd block, with one Huffman table
constexpr std::size_t gain_min = 32;                         // a 32nd of the block: below, decoding is not worth it

// How a type's elements are taken apart: two bytes into two planes, or not at all.
struct Layout {
  const PlaneSplit* planes;  // null: one plane, all of it coded
  std::size_t unit() const { return planes == nullptr ? 1 : 2; }
};

std::optional<Layout> layout_of(ElementType type) {
  switch (type) {
    case ElementType::bf16:
      return Layout{&bf16_planes};
    case ElementType::fp16:
      return Layout{&fp16_planes};
    case ElementType::fp8_e4m3:
      return Layout{&e4m3_planes};
    case ElementType::fp8_e5m2:
      return Layout{nullptr};
    case ElementType::unknown:
      break;
  }
  return std::nullopt;
}

const std::uint8_t* bytes_of(std::span<const std::byte> span) {
  return reinterpret_cast<const std::uint8_t*>(span.data());
}
std::uint8_t* bytes_of(std::span<std::byte> span) {
  return reinterpret_cast<std::uint8_t*>(span.data());
}

// Takes bytes from the front of a span; `enough` says whether they were there.
struct Reader {
  std::span<const std::byte> rest;
  std::size_t at = 0;

  bool enough(std::size_t bytes) const { return bytes <= rest.size(); }
  std::span<const std::byte> take(std::size_t bytes) {
    const auto front = rest.first(bytes);
    rest = rest.subspan(bytes);
    at += bytes;
    return front;
  }
};

// Literals only: the search for matches steps over a whole block at once, and literals are Huffman coded all the same.
bool set_literals_only(ZSTD_CCtx* encoder) {
  const std::array parameters{
      std::pair{ZSTD_c_strategy, static_cast<int>(ZSTD_fast)},
      std::pair{ZSTD_c_targetLength, static_cast<int>(ZSTD_TARGETLENGTH_MAX)},
      std::pair{ZSTD_c_windowLog, 17},
      std::pair{ZSTD_c_hashLog, static_cast<int>(ZSTD_HASHLOG_MIN)},
      std::pair{ZSTD_c_minMatch, static_cast<int>(ZSTD_MINMATCH_MAX)},
      std::pair{ZSTD_c_literalCompressionMode, static_cast<int>(ZSTD_ps_enable)},
      std::pair{ZSTD_c_contentSizeFlag, 0},
  };
  return std::ranges::none_of(parameters, [&](const auto& parameter) {
    return ZSTD_isError(ZSTD_CCtx_setParameter(encoder, parameter.first, parameter.second)) != 0;
  });
}

}  // namespace

void ExponentCodec::Free::operator()(ZSTD_CCtx_s* context) const {
  ZSTD_freeCCtx(context);
}
void ExponentCodec::Free::operator()(ZSTD_DCtx_s* context) const {
  ZSTD_freeDCtx(context);
}

ExponentCodec::ExponentCodec() : plane_(plane_bytes_max) {}
ExponentCodec::~ExponentCodec() = default;

std::optional<std::size_t> ExponentCodec::encode(ElementType type, std::span<const std::byte> raw,
                                                 std::span<std::byte> out) {
  const auto layout = layout_of(type);
  if (!layout || out.size() < raw.size()) return std::nullopt;
  if (encoder_ == nullptr) {
    encoder_.reset(ZSTD_createCCtx());
    if (encoder_ == nullptr || !set_literals_only(encoder_.get())) return encoder_.reset(), std::nullopt;
  }
  const std::size_t limit = raw.size() - raw.size() / gain_min;  // of the stored bytes
  const std::size_t unit = layout->unit();
  std::array<std::byte, header_bytes> header{std::byte{version}, static_cast<std::byte>(type)};
  if (limit < header.size()) return std::nullopt;
  std::ranges::copy(header, out.begin());
  std::size_t written = header.size();

  for (std::size_t from = 0; from + unit <= raw.size();) {
    const std::size_t count = std::min(plane_bytes_max, (raw.size() - from) / unit);
    const std::size_t rest = count * (unit - 1);
    if (written + sizeof(std::uint32_t) + rest > limit) return std::nullopt;
    const std::size_t room = limit - written - sizeof(std::uint32_t) - rest;
    std::uint8_t* const length_at = bytes_of(out) + written;
    std::uint8_t* const coded_at = length_at + sizeof(std::uint32_t);

    const std::uint8_t* plane = bytes_of(raw) + from;
    if (layout->planes != nullptr) {
      // The rest goes behind the coded plane, of which the length is not known yet: it waits at the end of the room.
      layout->planes->split(plane, count, plane_.data(), coded_at + room);
      plane = plane_.data();
    }
    std::size_t coded = ZSTD_compress2(encoder_.get(), coded_at, room, plane, count);
    if (ZSTD_isError(coded) != 0 || coded >= count) {
      if (room < count) return std::nullopt;
      std::memcpy(coded_at, plane, count);
      coded = count;
    }
    const auto length = static_cast<std::uint32_t>(coded);
    std::memcpy(length_at, &length, sizeof(length));
    std::memmove(coded_at + coded, coded_at + room, rest);
    written += sizeof(length) + coded + rest;
    from += count * unit;
  }
  const std::size_t left = raw.size() % unit;
  if (written + left > limit) return std::nullopt;
  std::ranges::copy(raw.last(left), out.begin() + static_cast<std::ptrdiff_t>(written));
  return written + left;
}

Status ExponentCodec::decode(std::span<const std::byte> stored, std::span<std::byte> raw) {
  const auto corrupt = [&](std::size_t at, std::string_view what) {
    return fail(Code::corrupt, "codec exponent: block of {} stored as {}: offset {}: {}", format_size(raw.size()),
                format_size(stored.size()), at, what);
  };
  if (stored.size() < header_bytes) return corrupt(0, "ends in the header");
  const auto layout = layout_of(static_cast<ElementType>(stored[1]));
  if (stored[0] != std::byte{version} || !layout || stored[2] != std::byte{0} || stored[3] != std::byte{0}) {
    return corrupt(0, "version or type is unknown");
  }
  if (decoder_ == nullptr) decoder_.reset(ZSTD_createDCtx());
  if (decoder_ == nullptr) return fail(Code::retry, "codec exponent: no memory for a decoder");

  Reader reader{stored.subspan(header_bytes), header_bytes};
  const std::size_t unit = layout->unit();
  for (std::size_t to = 0; to + unit <= raw.size();) {
    const std::size_t count = std::min(plane_bytes_max, (raw.size() - to) / unit);
    std::uint32_t length = 0;
    if (!reader.enough(sizeof(length))) return corrupt(reader.at, "ends before a plane");
    std::memcpy(&length, reader.take(sizeof(length)).data(), sizeof(length));
    if (length > count || !reader.enough(length + count * (unit - 1))) return corrupt(reader.at, "a plane is too long");
    const std::size_t at = reader.at;
    const std::uint8_t* plane = bytes_of(reader.take(length));
    std::uint8_t* const target = bytes_of(raw) + to;
    if (length < count) {
      std::uint8_t* const decoded = layout->planes == nullptr ? target : plane_.data();
      if (ZSTD_decompressDCtx(decoder_.get(), decoded, count, plane, length) != count) {
        return corrupt(at, "a coded plane is broken");
      }
      plane = decoded;
    } else if (layout->planes == nullptr) {
      std::memcpy(target, plane, count);
    }
    if (layout->planes != nullptr) layout->planes->merge(plane, bytes_of(reader.take(count)), count, target);
    to += count * unit;
  }
  const std::size_t left = raw.size() % unit;
  if (reader.rest.size() != left) return corrupt(reader.at, "the end is not where it must be");
  std::ranges::copy(reader.rest, raw.end() - static_cast<std::ptrdiff_t>(left));
  return {};
}

}  // namespace artesian
