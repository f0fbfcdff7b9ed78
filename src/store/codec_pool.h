// The codecs of one store, lent to whoever encodes or decodes a block just then, and what is done with them: the
// extents of a block, one by one, each kept as it is where it does not shrink.
//
// Threads: any; a codec that is lent belongs to its borrower. Memory: as many codecs as were ever in use at once.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/gather.h"
#include "codec/codec.h"
#include "format/record.h"

namespace artesian {

class CodecPool {
 public:
  // Encodes the extents of `raw` into `out`, one behind the other, and sets their stored_bytes and crc; `out` has room
  // for all of them as they are. The bytes written, or nothing if not even one page of them is saved: the extents are
  // as they were then.
  std::optional<std::uint64_t> encode(CodecId id, ElementType type, Pieces<const std::byte> raw,
                                      std::span<std::byte> out, std::vector<Extent>& extents);

  // The block of that record, whose stored bytes were verified, into `room`, which is large enough. corrupt if they are
  // not what that codec makes, or the codec is unknown.
  Status decode(const RecordHeader& record, std::span<const std::byte> stored, Pieces<std::byte> room);

 private:
  std::unique_ptr<Codec> take(CodecId id);  // null: there is no such codec
  void give_back(CodecId id, std::unique_ptr<Codec> codec);

  std::mutex mutex_;
  std::map<CodecId, std::vector<std::unique_ptr<Codec>>> idle_;
};

}  // namespace artesian
