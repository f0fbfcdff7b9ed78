#include "store/codec_pool.h"

namespace artesian {
namespace {

// One range of `pieces` in one piece of memory: where it is, or in `scratch` if it lies in several.
template <typename Byte>
std::span<Byte> in_one(Pieces<Byte> pieces, std::uint64_t from, std::uint64_t bytes, std::vector<std::byte>& scratch) {
  std::span<Byte> found;
  for_each_part(pieces, from, bytes, [&](auto part) {
    if (found.empty()) found = part;
  });
  if (found.size() == bytes) return found;
  scratch.resize(bytes);
  return scratch;
}

}  // namespace

std::unique_ptr<Codec> CodecPool::take(CodecId id) {
  {
    const std::lock_guard lock(mutex_);
    auto& idle = idle_[id];
    if (!idle.empty()) {
      auto codec = std::move(idle.back());
      idle.pop_back();
      return codec;
    }
  }
  const CodecInfo* info = find_codec(id);
  return info == nullptr ? nullptr : info->make();
}

void CodecPool::give_back(CodecId id, std::unique_ptr<Codec> codec) {
  const std::lock_guard lock(mutex_);
  idle_[id].push_back(std::move(codec));
}

std::optional<std::uint64_t> CodecPool::encode(CodecId id, ElementType type, Pieces<const std::byte> raw,
                                               std::span<std::byte> out, std::vector<Extent>& extents) {
  auto codec = take(id);
  if (codec == nullptr) return std::nullopt;
  std::vector<std::byte> scratch;
  std::vector<Extent> coded;
  std::uint64_t from = 0, to = 0;
  for (const Extent& extent : extents) {
    const auto plain = in_one(raw, from, extent.raw_bytes, scratch);
    if (plain.data() == scratch.data()) copy_out(raw, from, scratch);
    const auto rest = out.subspan(to);
    auto stored = codec->encode(type, plain, rest);
    if (!stored) {
      std::ranges::copy(plain, rest.begin());
      stored = plain.size();
    }
    coded.push_back({static_cast<std::uint32_t>(*stored), extent.raw_bytes, crc32c(rest.first(*stored))});
    from += extent.raw_bytes;
    to += *stored;
  }
  give_back(id, std::move(codec));
  if (pages_of(to) >= pages_of(from)) return std::nullopt;
  extents = std::move(coded);
  return to;
}

Status CodecPool::decode(const RecordHeader& record, std::span<const std::byte> stored, Pieces<std::byte> room) {
  const auto id = static_cast<CodecId>(record.codec);
  auto codec = take(id);
  if (codec == nullptr) return fail(Code::corrupt, "codec {} is unknown", record.codec);
  std::vector<std::byte> scratch;
  Status status;
  std::uint64_t to = 0;
  for (std::uint32_t i = 0; status && i < record.extent_count(); ++i) {
    const Extent extent = record.extent(i);
    const auto coded = stored.first(extent.stored_bytes);
    stored = stored.subspan(extent.stored_bytes);
    if (extent.stored_bytes == extent.raw_bytes) {
      copy_in(coded, room, to);
    } else {
      const auto plain = in_one(room, to, extent.raw_bytes, scratch);
      status = codec->decode(coded, plain);
      if (status && plain.data() == scratch.data()) copy_in(plain, room, to);
    }
    to += extent.raw_bytes;
  }
  give_back(id, std::move(codec));
  return status;
}

}  // namespace artesian
