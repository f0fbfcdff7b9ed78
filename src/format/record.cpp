#include "format/record.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/crc32c.h"
#include "base/little_endian.h"

namespace artesian {
namespace {

constexpr std::uint32_t record_magic = 0x52545241;  // "ARTR"
constexpr std::uint16_t record_version = 1, sealed_version = 2;
constexpr std::uint16_t flag_sealed = 1;
constexpr std::uint16_t no_slot = scope_records.slot;

enum RecordAt : std::size_t {
  at_magic = 0,
  at_crc = 4,
  at_version = 8,
  at_kind = 10,
  at_codec = 11,
  at_lifetime = 12,
  at_io_class = 13,
  at_key_bytes = 14,
  at_parent_bytes = 15,
  at_attribute_bytes = 16,
  at_extents = 18,
  at_header_pages = 20,
  at_flags = 22,
  at_stored = 24,
  at_raw = 28,
  at_segment = 32,
  at_page = 36,
  at_sequence = 40,
  at_generation = 48,
  at_ns = 56,
  at_epoch = 88,
  at_session = 96,
  at_position = 104,
  at_tokens = 108,
  at_deadline = 112,
  at_next_use = 120,
  at_payload_nonce = 128,  // of a sealed record's extents
  at_key = 160,
};

// The envelope of a sealed record; what is not named here is where a plain header has it.
constexpr std::size_t env_slot = 12, env_epoch = 56, env_nonce = 64, env_tag = 112, env_bytes = 128;
constexpr std::size_t extent_tag = 16;

constexpr std::uint32_t header_pages_limit = 9;

std::size_t extents_at(std::size_t key, std::size_t parent, std::size_t attributes) {
  return align_up(at_key + key + parent + attributes, 8);
}

// What of an envelope is bound to the header in it.
std::span<const std::byte> associated_of(std::span<const std::byte> pages) {
  constexpr std::size_t begin = at_version;
  return pages.subspan(begin, env_tag - begin);
}

// The extents must make up the payload.
Status check_extents(const RecordHeader& header) {
  std::uint64_t stored = 0, raw = 0;
  for (std::uint32_t i = 0; i < header.extent_count(); ++i) {
    const Extent extent = header.extent(i);
    if (header.codec == 0 && extent.stored_bytes != extent.raw_bytes) {
      return fail(Code::corrupt, "extent {} of the record has two sizes and no codec", i);
    }
    stored += extent.stored_bytes;
    raw += extent.raw_bytes;
  }
  if (stored != header.stored_bytes || raw != header.raw_bytes) {
    return fail(Code::corrupt, "the record's extents make up {} bytes of {}", stored, header.stored_bytes);
  }
  return {};
}

}  // namespace

Extent RecordHeader::extent(std::uint32_t index) const {
  const auto entry = extent_table.subspan(index * extent_bytes, extent_bytes);
  return {load_le<std::uint32_t>(entry, 0), load_le<std::uint32_t>(entry, 4), load_le<std::uint32_t>(entry, 8),
          load_le<GcmTag>(entry, extent_tag)};
}

std::uint32_t record_header_pages(std::size_t key_bytes, std::size_t parent_bytes, std::size_t attribute_bytes,
                                  std::size_t extents, bool sealed) {
  const std::size_t bytes = extents_at(key_bytes, parent_bytes, attribute_bytes) + extents * extent_bytes;
  return static_cast<std::uint32_t>(pages_of(bytes + (sealed ? env_bytes : 0)));
}

namespace {

// The header as a plain record begins with it, but for its CRC.
void encode_header(const RecordHeader& header, std::span<const Extent> extents, std::uint32_t header_pages,
                   std::span<std::byte> bytes) {
  const std::size_t keys = header.key.size(), parents = header.parent.size(), attributes = header.attributes.size();
  store_le(bytes, at_magic, record_magic);
  store_le(bytes, at_version, record_version);
  store_le(bytes, at_kind, header.kind);
  store_le(bytes, at_codec, header.codec);
  store_le(bytes, at_lifetime, header.lifetime);
  store_le(bytes, at_io_class, header.io_class);
  store_le(bytes, at_key_bytes, static_cast<std::uint8_t>(keys));
  store_le(bytes, at_parent_bytes, static_cast<std::uint8_t>(parents));
  store_le(bytes, at_attribute_bytes, static_cast<std::uint16_t>(attributes));
  store_le(bytes, at_extents, static_cast<std::uint16_t>(extents.size()));
  store_le(bytes, at_header_pages, static_cast<std::uint16_t>(header_pages));
  store_le(bytes, at_stored, header.stored_bytes);
  store_le(bytes, at_raw, header.raw_bytes);
  store_le(bytes, at_segment, header.segment);
  store_le(bytes, at_page, header.page);
  store_le(bytes, at_sequence, header.sequence);
  store_le(bytes, at_generation, header.generation);
  store_le(bytes, at_ns, header.ns);
  store_le(bytes, at_epoch, header.epoch);
  store_le(bytes, at_session, header.session);
  store_le(bytes, at_position, header.position);
  store_le(bytes, at_tokens, header.tokens);
  store_le(bytes, at_deadline, header.deadline_ms);
  store_le(bytes, at_next_use, header.next_use_ms);
  store_nonce(bytes, at_payload_nonce, header.payload_nonce);
  std::size_t at = at_key;
  for (const auto part : {header.key, header.parent, header.attributes}) {
    if (!part.empty()) std::memcpy(bytes.data() + at, part.data(), part.size());
    at += part.size();
  }
  at = extents_at(keys, parents, attributes);
  for (const Extent& extent : extents) {
    store_le(bytes, at, extent.stored_bytes);
    store_le(bytes, at + 4, extent.raw_bytes);
    store_le(bytes, at + 8, extent.crc);
    store_le(bytes, at + extent_tag, extent.tag);
    at += extent_bytes;
  }
}

// Puts the envelope around a header that lies behind its place.
bool seal_header(const RecordHeader& header, const Id& store, const Seal& seal, std::span<std::byte> pages) {
  const auto inner = pages.subspan(env_bytes);
  std::memset(pages.data(), 0, env_bytes);
  store_le(pages, at_magic, record_magic);
  store_le(pages, at_version, sealed_version);
  store_le(pages, at_kind, header.kind);
  store_le(pages, env_slot, seal.scope.slot);
  store_le(pages, at_header_pages, static_cast<std::uint16_t>(pages.size() / store_page));
  store_le(pages, at_flags, flag_sealed);
  store_le(pages, at_stored, header.stored_bytes);
  store_le(pages, at_segment, header.segment);
  store_le(pages, at_page, header.page);
  store_le(pages, at_sequence, header.sequence);
  store_le(pages, at_generation, header.generation);
  store_le(pages, env_epoch, seal.scope.epoch);
  store_nonce(pages, env_nonce, seal.nonce);
  GcmTag tag{};
  const bool sealed = seal_whole(seal, associated_of(pages), inner, tag);
  store_le(pages, env_tag, tag);
  if (!sealed) std::memset(pages.data(), 0, pages.size());
  store_le(pages, at_crc, store_crc(pages, store));
  return sealed;
}

void store_place(const RecordHeader& header, std::span<std::byte> bytes) {
  store_le(bytes, at_lifetime, header.lifetime);
  store_le(bytes, at_segment, header.segment);
  store_le(bytes, at_page, header.page);
  store_le(bytes, at_sequence, header.sequence);
}

}  // namespace

bool encode_record(const RecordHeader& header, std::span<const Extent> extents, const Id& store,
                   std::span<std::byte> pages, const Seal* seal) {
  const std::size_t keys = header.key.size(), parents = header.parent.size(), attributes = header.attributes.size();
  const std::uint32_t count = record_header_pages(keys, parents, attributes, extents.size(), seal != nullptr);
  assert(pages.size() == count * store_page);
  assert(keys <= key_bytes_limit && parents <= key_bytes_limit && attributes <= attribute_bytes_limit);
  assert(!extents.empty() && extents.size() <= extents_limit);
  std::memset(pages.data(), 0, pages.size());
  encode_header(header, extents, count, seal != nullptr ? pages.subspan(env_bytes) : pages);
  if (seal != nullptr) return seal_header(header, store, *seal, pages);
  store_le(pages, at_crc, store_crc(pages, store));
  return true;
}

bool rewrite_record(const RecordHeader& header, const Id& store, std::span<std::byte> pages, const Seal* seal) {
  const auto own = pages.first(header.header_pages * store_page);
  if (seal != nullptr) {
    const auto inner = own.subspan(env_bytes);
    std::memcpy(inner.data(), header.opened.get(), inner.size());
    store_place(header, inner);
    return seal_header(header, store, *seal, own);
  }
  store_place(header, own);
  store_le(own, at_crc, store_crc(own, store));
  return true;
}

bool begins_like_record(std::span<const std::byte> page) {
  return page.size() >= store_page && load_le<std::uint32_t>(page, at_magic) == record_magic;
}

std::uint32_t stated_header_pages(std::span<const std::byte> page) {
  if (!begins_like_record(page)) return 0;
  const auto pages = load_le<std::uint16_t>(page, at_header_pages);
  return pages <= header_pages_limit ? pages : 0;
}

namespace {

Result<RecordHeader> parse_header(std::span<const std::byte> pages, bool sealed) {
  RecordHeader header;
  header.kind = load_le<RecordKind>(pages, at_kind);
  header.codec = load_le<std::uint8_t>(pages, at_codec);
  header.lifetime = load_le<std::uint8_t>(pages, at_lifetime);
  header.io_class = load_le<std::uint8_t>(pages, at_io_class);
  header.stored_bytes = load_le<std::uint32_t>(pages, at_stored);
  header.raw_bytes = load_le<std::uint32_t>(pages, at_raw);
  header.segment = load_le<std::uint32_t>(pages, at_segment);
  header.page = load_le<std::uint32_t>(pages, at_page);
  header.sequence = load_le<std::uint64_t>(pages, at_sequence);
  header.generation = load_le<std::uint64_t>(pages, at_generation);
  header.ns = load_le<NamespaceDigest>(pages, at_ns);
  header.epoch = load_le<std::uint64_t>(pages, at_epoch);
  header.session = load_le<std::uint64_t>(pages, at_session);
  header.position = load_le<std::uint32_t>(pages, at_position);
  header.tokens = load_le<std::uint32_t>(pages, at_tokens);
  header.deadline_ms = load_le<std::uint64_t>(pages, at_deadline);
  header.next_use_ms = load_le<std::uint64_t>(pages, at_next_use);
  header.payload_nonce = load_nonce(pages, at_payload_nonce);
  header.header_pages = load_le<std::uint16_t>(pages, at_header_pages);
  const std::size_t keys = load_le<std::uint8_t>(pages, at_key_bytes);
  const std::size_t parents = load_le<std::uint8_t>(pages, at_parent_bytes);
  const std::size_t attributes = load_le<std::uint16_t>(pages, at_attribute_bytes);
  const std::size_t extents = load_le<std::uint16_t>(pages, at_extents);
  const bool block = header.kind == RecordKind::block;
  if (!(block || header.kind == RecordKind::erasures) || (block && keys == 0) || attributes > attribute_bytes_limit ||
      extents == 0 || extents > extents_limit ||
      record_header_pages(keys, parents, attributes, extents, sealed) != pages_of(pages.size()) ||
      header.header_pages != pages_of(pages.size()) || header.stored_bytes > block_bytes_limit ||
      header.raw_bytes > block_bytes_limit) {
    return fail(Code::corrupt, "the record's header contradicts itself");
  }
  header.key = pages.subspan(at_key, keys);
  header.parent = pages.subspan(at_key + keys, parents);
  header.attributes = pages.subspan(at_key + keys + parents, attributes);
  header.extent_table = pages.subspan(extents_at(keys, parents, attributes), extents * extent_bytes);
  if (auto checked = check_extents(header); !checked) return fail(std::move(checked.error()));
  return header;
}

Result<RecordHeader> open_record(std::span<const std::byte> pages, const Sealer& sealer) {
  const SealScope scope{.slot = load_le<std::uint16_t>(pages, env_slot),
                        .epoch = load_le<std::uint64_t>(pages, env_epoch)};
  const SealNonce nonce = load_nonce(pages, env_nonce);
  if (scope.slot != no_slot && scope.slot >= namespace_slots) {
    return fail(Code::corrupt, "the record is of namespace {}, there are {}", scope.slot, namespace_slots);
  }
  const auto inner = pages.subspan(env_bytes);
  std::shared_ptr<std::byte[]> opened(new std::byte[inner.size()]);
  const std::span out(opened.get(), inner.size());
  if (auto done = open_whole(sealer, scope, nonce, associated_of(pages), inner, out, load_le<GcmTag>(pages, env_tag),
                             "the record's header");
      !done) {
    return fail(std::move(done.error()));
  }
  auto header = parse_header(out, true);
  if (!header) return header;
  header->opened = std::move(opened);
  header->scope = scope;
  return header;
}

}  // namespace

RecordHeader parse_envelope(std::span<const std::byte> pages) {
  RecordHeader header;
  header.stored_bytes = load_le<std::uint32_t>(pages, at_stored);
  header.segment = load_le<std::uint32_t>(pages, at_segment);
  header.page = load_le<std::uint32_t>(pages, at_page);
  header.sequence = load_le<std::uint64_t>(pages, at_sequence);
  header.generation = load_le<std::uint64_t>(pages, at_generation);
  header.header_pages = stated_header_pages(pages);
  return header;
}

Result<RecordHeader> parse_record(std::span<const std::byte> bytes, const Id& store, const Sealer* sealer) {
  const std::uint32_t header_pages = stated_header_pages(bytes);
  if (header_pages == 0 || header_pages * store_page > bytes.size()) {
    return fail(Code::corrupt, "there is no record's header");
  }
  const auto pages = bytes.first(header_pages * store_page);
  if (load_le<std::uint32_t>(pages, at_crc) != store_crc(pages, store)) {
    return fail(Code::corrupt, "the record's header is damaged");
  }
  // From here on the bytes are what a store wrote. Whether it was this program's is another matter. In a store that is
  // encrypted a plain record is nobody's who has the key.
  const std::uint16_t known = sealer != nullptr ? sealed_version : record_version;
  if (const auto version = load_le<std::uint16_t>(pages, at_version); version != known) {
    return fail(Code::corrupt, "the record has version {}, this store's have {}", version, known);
  }
  const std::uint16_t meant = sealer != nullptr ? flag_sealed : 0;
  if (const auto flags = load_le<std::uint16_t>(pages, at_flags); flags != meant) {
    return fail(Code::corrupt, "the record has flags {:#x} that this program does not know", flags);
  }
  return sealer != nullptr ? open_record(pages, *sealer) : parse_header(pages, false);
}

namespace {

// What an extent belongs to, wherever it lies.
std::vector<std::byte> identity_of(const RecordHeader& header) {
  std::vector<std::byte> bytes(sizeof header.ns + sizeof header.epoch + header.key.size());
  store_le(bytes, 0, header.ns);
  store_le(bytes, sizeof header.ns, header.epoch);
  std::ranges::copy(header.key, bytes.begin() + sizeof header.ns + sizeof header.epoch);
  return bytes;
}

// Calls `use` with pieces that stay in the cache until they were looked at twice.
template <typename Byte, typename Use>
void for_each_bite(Pieces<Byte> pieces, std::uint64_t from, std::uint64_t bytes, Use use) {
  constexpr std::size_t bite = 64 * KiB;
  for_each_part(pieces, from, bytes, [&](auto part) {
    for (std::size_t at = 0; at < part.size(); at += bite) use(part.subspan(at, std::min(bite, part.size() - at)));
  });
}

}  // namespace

bool seal_payload(const RecordHeader& header, const SecretKey& key, Pieces<const std::byte> in,
                  std::span<std::byte> out, std::span<Extent> extents) {
  const auto identity = identity_of(header);
  AesGcm gcm;
  std::uint64_t at = 0;
  for (std::uint32_t i = 0; i < extents.size(); ++i) {
    Extent& extent = extents[i];
    bool well = gcm.begin_seal(key, nonce_of(header.payload_nonce, i), identity);
    extent.crc = 0;
    for_each_bite(in, at, extent.stored_bytes, [&](std::span<const std::byte> part) {
      const auto sealed = out.subspan(at, part.size());
      well = well && gcm.add(part, sealed.data());
      extent.crc = crc32c(sealed, extent.crc);
      at += part.size();
    });
    if (!well || !gcm.end_seal(extent.tag)) return false;
  }
  return true;
}

Result<PayloadCheck> PayloadCheck::begin(const RecordHeader& header, const Sealer* sealer) {
  PayloadCheck check;
  check.header_ = &header;
  if (sealer != nullptr) {
    const auto key = sealer->key_of(header.scope, header.payload_nonce.opening);
    if (!key) return fail(key.error());
    check.key_ = *key;
    check.identity_ = identity_of(header);
    check.gcm_ = std::make_unique<AesGcm>();
  }
  check.good_ = check.next_extent();
  return check;
}

// Those that are empty are good at once.
bool PayloadCheck::next_extent() {
  for (; extent_ < header_->extent_count(); ++extent_) {
    now_ = header_->extent(extent_);
    left_ = now_.stored_bytes;
    crc_ = 0;
    if (gcm_ != nullptr && !gcm_->begin_open(*key_, nonce_of(header_->payload_nonce, extent_), identity_)) return false;
    if (left_ > 0) return true;
    if (!end_extent()) return false;
  }
  return true;
}

bool PayloadCheck::end_extent() {
  return gcm_ != nullptr ? gcm_->end_open(now_.tag) : crc_ == now_.crc;
}

bool PayloadCheck::add(std::span<std::byte> bytes) {
  while (good_ && !bytes.empty()) {
    if (extent_ == header_->extent_count()) return good_ = false;
    const auto part = bytes.first(std::min<std::size_t>(left_, bytes.size()));
    if (gcm_ != nullptr) {
      good_ = gcm_->add(part, part.data());
    } else {
      crc_ = crc32c(part, crc_);
    }
    bytes = bytes.subspan(part.size());
    left_ -= static_cast<std::uint32_t>(part.size());
    if (left_ > 0 || !good_) continue;
    good_ = end_extent();
    ++extent_;
    good_ = good_ && next_extent();
  }
  return good_;
}

Status open_payload(const RecordHeader& header, const Sealer& sealer, Pieces<std::byte> pieces) {
  auto check = PayloadCheck::begin(header, &sealer);
  if (!check) return fail(std::move(check.error()));
  for (const auto& piece : pieces) check->add(piece);
  if (!check->end()) return fail(Code::corrupt, "the record's payload is not what was sealed under this key");
  return {};
}

bool verify_payload(const RecordHeader& header, std::span<const std::span<const std::byte>> pieces) {
  if (bytes_of(pieces) < header.stored_bytes) return false;
  std::uint64_t from = 0;
  for (std::uint32_t i = 0; i < header.extent_count(); ++i) {
    const Extent extent = header.extent(i);
    if (crc32c_of(pieces, from, extent.stored_bytes) != extent.crc) return false;
    from += extent.stored_bytes;
  }
  return true;
}

bool whole_payload_is_good(const RecordHeader& header, std::span<const std::byte> pages) {
  const auto payload = pages.subspan(header.header_pages * store_page, header.stored_bytes);
  return verify_payload(header, std::span(&payload, 1));
}

void encode_erasures(std::span<const Erasure> erasures, std::span<std::byte> payload) {
  assert(payload.size() == erasures.size() * erasure_bytes);
  for (std::size_t i = 0; i < erasures.size(); ++i) {
    const auto entry = payload.subspan(i * erasure_bytes, erasure_bytes);
    store_le(entry, 0, erasures[i].key.low);
    store_le(entry, 8, erasures[i].key.high);
    store_le(entry, 16, erasures[i].generation);
    store_le(entry, 24, erasures[i].sequence);
  }
}

std::vector<Erasure> parse_erasures(std::span<const std::byte> payload) {
  std::vector<Erasure> erasures(payload.size() / erasure_bytes);
  for (std::size_t i = 0; i < erasures.size(); ++i) {
    const auto entry = payload.subspan(i * erasure_bytes, erasure_bytes);
    erasures[i].key = {load_le<std::uint64_t>(entry, 0), load_le<std::uint64_t>(entry, 8)};
    erasures[i].generation = load_le<std::uint64_t>(entry, 16);
    erasures[i].sequence = load_le<std::uint64_t>(entry, 24);
  }
  return erasures;
}

}  // namespace artesian
