#include "store/archive.h"

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "base/little_endian.h"
#include "platform/arena.h"

namespace artesian {
namespace {

constexpr char magic[8] = {'A', 'R', 'T', 'E', 'X', 'P', 'O', 'R'};
constexpr std::uint32_t archive_version = 1;
constexpr std::size_t file_header_bytes = 64, entry_header_bytes = 96;
constexpr std::uint32_t entry_magic = 0x45545241;  // "ARTE"
enum class EntryKind : std::uint32_t { space = 1, block = 2, end = 3 };

enum FileAt : std::size_t { file_crc = 8, file_version = 12, file_store = 16 };

enum EntryAt : std::size_t {
  at_magic = 0,
  at_crc = 4,  // of the rest of the header and of what follows it
  at_kind = 8,
  at_space = 12,
  at_key = 16,
  at_parent = 18,
  at_attributes = 20,
  at_extents = 22,
  at_data = 24,
  at_session = 32,
  at_position = 40,
  at_tokens = 44,
  at_deadline = 48,
  at_next_use = 56,
  at_lifetime = 64,
  at_count = 72,
};

// The sizes that an entry's header states.
struct EntrySizes {
  std::size_t key = 0, parent = 0, attributes = 0, extents = 0;
  std::uint64_t data = 0;
  std::uint64_t all() const { return key + parent + attributes + 4 * extents + data; }
};

class Writer {
 public:
  Writer(const File& file, ArchiveReport& report) : file_(file), report_(report) {}

  Status begin(const Id& store) {
    std::vector<std::byte> header(file_header_bytes);
    std::memcpy(header.data(), magic, sizeof magic);
    store_le(header, file_version, archive_version);
    store_le(header, file_store, store);
    store_le(header, file_crc, crc32c(std::span(header).subspan(file_version)));
    return write(header);
  }

  // An entry whose header is filled in but for magic and CRC, and what follows it.
  Status add(std::span<std::byte> header, std::initializer_list<std::span<const std::byte>> parts) {
    store_le(header, at_magic, entry_magic);
    std::uint32_t crc = crc32c(header.subspan(at_kind));
    for (const auto part : parts) crc = crc32c(part, crc);
    store_le(header, at_crc, crc);
    if (auto written = write(header); !written) return written;
    for (const auto part : parts) {
      if (auto written = write(part); !written) return written;
    }
    return {};
  }

 private:
  Status write(std::span<const std::byte> bytes) {
    if (bytes.empty()) return {};
    if (auto written = file_.write(report_.bytes, bytes); !written) return written;
    report_.bytes += bytes.size();
    return {};
  }

  const File& file_;
  ArchiveReport& report_;
};

Status add_block(Writer& writer, std::uint32_t space, const BlockFacts& facts, std::span<const std::byte> data) {
  std::array<std::byte, entry_header_bytes> header{};
  store_le(header, at_kind, EntryKind::block);
  store_le(header, at_space, space);
  store_le(header, at_key, static_cast<std::uint16_t>(facts.key.size()));
  store_le(header, at_parent, static_cast<std::uint16_t>(facts.parent.size()));
  store_le(header, at_attributes, static_cast<std::uint16_t>(facts.attributes.size()));
  store_le(header, at_extents, static_cast<std::uint16_t>(facts.extents.size()));
  store_le(header, at_data, static_cast<std::uint64_t>(data.size()));
  store_le(header, at_session, facts.hints.session);
  store_le(header, at_position, facts.hints.position);
  store_le(header, at_tokens, facts.hints.tokens);
  store_le(header, at_deadline, facts.hints.deadline_ms);
  store_le(header, at_next_use, facts.hints.next_use_ms);
  store_le(header, at_lifetime, facts.hints.lifetime);
  return writer.add(header, {facts.key, facts.parent, facts.attributes, std::as_bytes(std::span(facts.extents)), data});
}

Status export_space(Engine& store, const NamespaceFacts& space, std::span<std::byte> room, Writer& writer,
                    ArchiveReport& report, const ArchiveProgress& progress) {
  std::array<std::byte, entry_header_bytes> header{};
  const NamespaceDigest digest = store.digest_of(space.id);
  store_le(header, at_kind, EntryKind::space);
  store_le(header, at_space, space.id);
  store_le(header, at_key, static_cast<std::uint16_t>(digest.size()));
  store_le(header, at_data, static_cast<std::uint64_t>(space.text.size()));
  if (auto added = writer.add(header, {digest, std::as_bytes(std::span(space.text))}); !added) return added;
  ++report.namespaces;
  Status status;
  const auto listed = store.list(space.id, [&](const BlockFacts& facts) {
    Get item{.key = facts.key, .buffer = room};
    store.get(space.id, std::span(&item, 1));
    if (item.outcome != Outcome::hit) {
      ++report.lost;
      return true;
    }
    status = add_block(writer, space.id, facts, room.first(item.bytes));
    ++report.blocks;
    if (progress) progress(report);
    return status.has_value();
  });
  if (!status) return status;
  if (!listed && listed.error().code != Code::corrupt) return listed;
  if (!listed) ++report.lost;  // what cannot be read is listed by nobody
  return {};
}

// One entry of an archive, checked.
struct Entry {
  std::array<std::byte, entry_header_bytes> header;
  EntrySizes sizes;
  std::span<std::byte> body;

  EntryKind kind() const { return load_le<EntryKind>(header, at_kind); }
  std::uint32_t space() const { return load_le<std::uint32_t>(header, at_space); }
};

class Reader {
 public:
  Reader(const File& file, std::span<std::byte> room, ArchiveReport& report)
      : file_(file), room_(room), report_(report) {}

  Status begin() {
    const auto size = file_.size();
    if (!size) return fail(size.error());
    report_.of_bytes = *size;
    std::array<std::byte, file_header_bytes> header;
    if (auto read = take(header); !read) return read;
    if (std::memcmp(header.data(), magic, sizeof magic) != 0) {
      return fail(Code::invalid, "{}: is not what a store was exported to", file_.path());
    }
    if (load_le<std::uint32_t>(header, file_crc) != crc32c(std::span(header).subspan(file_version))) {
      return fail(Code::corrupt, "{}: its beginning is damaged", file_.path());
    }
    if (const auto version = load_le<std::uint32_t>(header, file_version); version != archive_version) {
      return fail(Code::invalid, "{}: has version {}, this program knows {}", file_.path(), version, archive_version);
    }
    return {};
  }

  Status next(Entry& entry) {
    const std::uint64_t at = report_.bytes;
    if (auto read = take(entry.header); !read) return read;
    const auto sixteen = [&](std::size_t where) { return load_le<std::uint16_t>(entry.header, where); };
    entry.sizes = {.key = sixteen(at_key),
                   .parent = sixteen(at_parent),
                   .attributes = sixteen(at_attributes),
                   .extents = sixteen(at_extents),
                   .data = load_le<std::uint64_t>(entry.header, at_data)};
    const bool sane = load_le<std::uint32_t>(entry.header, at_magic) == entry_magic &&
                      entry.sizes.data <= block_bytes_limit && entry.sizes.all() <= room_.size();
    if (!sane) return fail(Code::corrupt, "{}: offset {}: is damaged", file_.path(), at);
    entry.body = room_.first(entry.sizes.all());
    if (auto read = take(entry.body); !read) return read;
    const std::uint32_t crc = crc32c(entry.body, crc32c(std::span(entry.header).subspan(at_kind)));
    if (crc != load_le<std::uint32_t>(entry.header, at_crc)) {
      return fail(Code::corrupt, "{}: offset {}: is damaged", file_.path(), at);
    }
    return {};
  }

 private:
  Status take(std::span<std::byte> out) {
    if (out.size() > report_.of_bytes - report_.bytes) {
      return fail(Code::corrupt, "{}: ends too soon, at {} bytes", file_.path(), report_.of_bytes);
    }
    if (auto read = file_.read(report_.bytes, out); !read) return read;
    report_.bytes += out.size();
    return {};
  }

  const File& file_;
  std::span<std::byte> room_;
  ArchiveReport& report_;
};

Status import_block(Engine& store, NamespaceId ns, const Entry& entry, ArchiveReport& report) {
  auto rest = std::span<const std::byte>(entry.body);
  const auto cut = [&](std::size_t bytes) {
    const auto part = rest.first(bytes);
    rest = rest.subspan(bytes);
    return part;
  };
  const auto number = [&]<typename Number>(Number&, std::size_t at) { return load_le<Number>(entry.header, at); };
  Put item{.key = cut(entry.sizes.key), .parent = cut(entry.sizes.parent), .attributes = cut(entry.sizes.attributes)};
  std::vector<std::uint32_t> extents(entry.sizes.extents);
  const auto sizes = cut(4 * entry.sizes.extents);
  if (!sizes.empty()) std::memcpy(extents.data(), sizes.data(), sizes.size());
  item.extents = extents;
  item.data = rest;
  item.hints = {.session = number(item.hints.session, at_session),
                .position = number(item.hints.position, at_position),
                .tokens = number(item.hints.tokens, at_tokens),
                .deadline_ms = number(item.hints.deadline_ms, at_deadline),
                .next_use_ms = number(item.hints.next_use_ms, at_next_use),
                .lifetime = number(item.hints.lifetime, at_lifetime)};
  store.put(ns, std::span(&item, 1));
  if (item.outcome == Outcome::stored) ++report.blocks;
  if (item.outcome == Outcome::present) ++report.present;
  if (item.outcome != Outcome::stored && item.outcome != Outcome::present) ++report.lost;
  if (item.outcome == Outcome::failed) return fail(Code::device_failed, "a block could not be written");
  return {};
}

}  // namespace

Result<ArchiveReport> export_store(Engine& store, const File& file, const ArchiveProgress& progress) {
  auto room = Arena::reserve(block_bytes_limit);
  if (!room) return fail(std::move(room.error()));
  ArchiveReport report{.of = store.stats().blocks};
  Writer writer(file, report);
  if (auto begun = writer.begin(store.id()); !begun) return fail(std::move(begun.error()));
  for (const NamespaceFacts& space : store.namespaces()) {
    if (auto did = export_space(store, space, room->span(), writer, report, progress); !did) {
      return fail(std::move(did.error()));
    }
  }
  std::array<std::byte, entry_header_bytes> end{};
  store_le(end, at_kind, EntryKind::end);
  store_le(end, at_count, report.blocks);
  if (auto added = writer.add(end, {}); !added) return fail(std::move(added.error()));
  if (auto synced = file.sync_data(); !synced) return fail(std::move(synced.error()));
  return report;
}

Result<ArchiveReport> import_store(Engine& store, const File& file, const ArchiveProgress& progress) {
  constexpr std::uint64_t most_beside = 2 * key_bytes_limit + attribute_bytes_limit + 4 * extents_limit;
  auto room = Arena::reserve(block_bytes_limit + align_up(most_beside, store_page));
  if (!room) return fail(std::move(room.error()));
  ArchiveReport report;
  Reader reader(file, room->span(), report);
  if (auto begun = reader.begin(); !begun) return fail(std::move(begun.error()));
  std::map<std::uint32_t, NamespaceId> spaces;
  for (std::uint64_t seen = 0;;) {
    Entry entry{};
    if (auto read = reader.next(entry); !read) return fail(std::move(read.error()));
    if (entry.kind() == EntryKind::end) {
      if (load_le<std::uint64_t>(entry.header, at_count) == seen) break;
      return fail(Code::corrupt, "{}: has {} blocks of {}", file.path(), seen,
                  load_le<std::uint64_t>(entry.header, at_count));
    }
    if (entry.kind() == EntryKind::space && entry.sizes.key == sizeof(NamespaceDigest)) {
      const auto text = entry.body.subspan(entry.sizes.key);
      const auto ns = store.adopt_namespace(load_le<NamespaceDigest>(entry.body, 0),
                                            {reinterpret_cast<const char*>(text.data()), text.size()});
      if (!ns) return fail(ns.error());
      spaces[entry.space()] = *ns;
      ++report.namespaces;
      continue;
    }
    const auto space = spaces.find(entry.space());
    if (entry.kind() != EntryKind::block || space == spaces.end()) {
      return fail(Code::corrupt, "{}: before offset {}: no block of a namespace that was named", file.path(),
                  report.bytes);
    }
    ++seen;
    if (auto put = import_block(store, space->second, entry, report); !put) return fail(std::move(put.error()));
    if (progress) progress(report);
  }
  if (auto flushed = store.flush(); !flushed) return fail(std::move(flushed.error()));
  return report;
}

}  // namespace artesian
