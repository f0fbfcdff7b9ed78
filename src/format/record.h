// One record of a segment: header pages and a payload of extents, as docs/format.md lays it out. Encoding is for the
// store; parsing takes every byte for hostile and answers with views into them.
//
// A sealed record is an envelope, which says what recovery needs, and in it, encrypted, the header that a plain record
// has. Of an erased namespace's record only the envelope can be read.
//
// Threads: pure. Ownership: a parsed RecordHeader borrows the bytes it was parsed from, or owns them with its copies
// where they were sealed.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "base/gather.h"
#include "format/sealer.h"

namespace artesian {

enum class RecordKind : std::uint8_t { block = 1, erasures = 2 };

struct Extent {
  std::uint32_t stored_bytes = 0;  // on flash
  std::uint32_t raw_bytes = 0;     // as the caller knows them; the same without a codec
  std::uint32_t crc = 0;           // of the bytes on flash
  GcmTag tag{};                    // where they are sealed
};
constexpr std::size_t extent_bytes = 32;

struct RecordHeader {
  RecordKind kind = RecordKind::block;
  std::uint8_t codec = 0;
  std::uint8_t lifetime = 0;
  std::uint8_t io_class = 0;  // hint
  std::uint32_t stored_bytes = 0, raw_bytes = 0;
  std::uint32_t segment = 0, page = 0;
  std::uint64_t sequence = 0;
  std::uint64_t generation = 0;
  NamespaceDigest ns{};
  std::uint64_t epoch = 0;
  std::uint64_t session = 0;
  std::uint32_t position = 0, tokens = 0;
  std::uint64_t deadline_ms = 0, next_use_ms = 0;      // Unix time
  std::span<const std::byte> key, parent, attributes;  // borrowed

  SealNonce payload_nonce;  // of a sealed record's extents
  SealScope scope;          // and whose key that is

  std::shared_ptr<const std::byte[]> opened;  // set by parse_record: the header of a sealed record, decrypted
  std::uint32_t header_pages = 0;             // set by parse_record
  std::span<const std::byte> extent_table;    // set by parse_record; see extent()
  std::uint32_t extent_count() const { return static_cast<std::uint32_t>(extent_table.size() / extent_bytes); }
  Extent extent(std::uint32_t index) const;
  std::uint32_t pages() const { return header_pages + static_cast<std::uint32_t>(pages_of(stored_bytes)); }
};

// How many pages the header takes.
std::uint32_t record_header_pages(std::size_t key_bytes, std::size_t parent_bytes, std::size_t attribute_bytes,
                                  std::size_t extents, bool sealed);

// Fills `pages`, which has exactly record_header_pages(...) of them, sealed where a seal is given. The header's fields
// must keep the limits of the format and its byte counts must be the sums of the extents': the store has seen to that.
// False: there was no memory to seal it.
[[nodiscard]] bool encode_record(const RecordHeader& header, std::span<const Extent> extents, const Id& store,
                                 std::span<std::byte> pages, const Seal* seal = nullptr);

// The header of a record that moves: `pages` begins with it as it was, and `header`, parsed from there, says where it
// is now. Key, hints and extents stay. A sealed one is sealed anew.
[[nodiscard]] bool rewrite_record(const RecordHeader& header, const Id& store, std::span<std::byte> pages,
                                  const Seal* seal = nullptr);

// Whether a page begins like a record: a cheap look before parse_record.
bool begins_like_record(std::span<const std::byte> page);
// How many pages the header that begins in `page` says it has, 1 to 9; 0 if it cannot be one.
std::uint32_t stated_header_pages(std::span<const std::byte> page);

// `pages` begins with the header and holds all of it; corrupt if not, or if any of its bytes is not as it must be.
// With a sealer: not_found if it is of a namespace that was erased, and nobody can read it any more.
Result<RecordHeader> parse_record(std::span<const std::byte> pages, const Id& store, const Sealer* sealer = nullptr);
// What can be read of such a one: where it is, its generation, its pages.
RecordHeader parse_envelope(std::span<const std::byte> pages);

// Encrypts a payload, which may be where it goes already, to `out`; `extents` learn their tags and CRCs. The header has
// namespace, epoch and key, which are bound to it, and its nonce. False: there was no memory.
[[nodiscard]] bool seal_payload(const RecordHeader& header, const SecretKey& key, Pieces<const std::byte> in,
                                std::span<std::byte> out, std::span<Extent> extents);
// Checks a payload as it comes, from the first byte to the last: CRCs, or with a sealer tags, and then what is added is
// decrypted where it is. The header must outlive it.
class PayloadCheck {
 public:
  // not_found if its namespace was erased.
  static Result<PayloadCheck> begin(const RecordHeader& header, const Sealer* sealer);
  // The next bytes. False if an extent that ends in them is not what it must be.
  bool add(std::span<std::byte> bytes);
  // Whether all of it was added, and good.
  bool end() const { return good_ && extent_ == header_->extent_count(); }

 private:
  PayloadCheck() = default;
  bool next_extent();
  bool end_extent();

  const RecordHeader* header_ = nullptr;
  std::optional<SecretKey> key_;  // of a sealed one
  std::vector<std::byte> identity_;
  std::unique_ptr<AesGcm> gcm_;
  Extent now_;
  std::uint32_t extent_ = 0, left_ = 0, crc_ = 0;
  bool good_ = true;
};
// Decrypts a sealed record's payload where it is. corrupt if it is not what was sealed: its bytes are of no use then.
Status open_payload(const RecordHeader& header, const Sealer& sealer, Pieces<std::byte> pieces);

// Whether every extent of the payload has its CRC. The pieces follow one another and hold stored_bytes together.
bool verify_payload(const RecordHeader& header, std::span<const std::span<const std::byte>> pieces);
// The same of a record whose header and payload lie together in `pages`.
bool whole_payload_is_good(const RecordHeader& header, std::span<const std::byte> pages);

// The payload of an erasures record.
struct Erasure {
  KeyHash key;
  std::uint64_t generation = 0;  // of the erased record: it and older ones are void
  std::uint64_t sequence = 0;    // of the segment that the erased record is in
};
constexpr std::size_t erasure_bytes = 32;
void encode_erasures(std::span<const Erasure> erasures, std::span<std::byte> payload);  // payload: 32 bytes for each
std::vector<Erasure> parse_erasures(std::span<const std::byte> payload);

}  // namespace artesian
