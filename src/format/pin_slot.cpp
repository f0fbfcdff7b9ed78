#include "format/pin_slot.h"

#include <cassert>
#include <cstring>

#include "base/little_endian.h"

namespace artesian {
namespace {

constexpr std::uint32_t magic = 0x50545241;  // "ARTP"
constexpr std::uint32_t plain_version = 1, sealed_version = 2;

enum PageAt : std::size_t {
  at_magic = 0,
  at_crc = 4,
  at_version = 8,
  at_revision = 16,
  at_nonce = 32,
  at_tag = 64,
  at_body = 80
};

// In the body, which is sealed where the store is encrypted.
enum BodyAt : std::size_t {
  body_name_bytes = 0,
  body_keys = 2,
  body_ns = 4,
  body_epoch = 8,
  body_name = 16,
  body_hashes = 80
};
constexpr std::size_t body_bytes = store_page - at_body;
static_assert(body_hashes + pins_a_slot * 16 <= body_bytes);

std::span<const std::byte> associated_of(std::span<const std::byte> page) {
  constexpr std::size_t begin = at_version;
  return page.subspan(begin, at_tag - begin);
}

}  // namespace

bool encode_pin_slot(const PinSlot& slot, const Id& store, std::span<std::byte> page, const Seal* seal) {
  assert(page.size() == store_page && slot.name.size() <= pin_name_limit && slot.keys.size() <= pins_a_slot);
  std::memset(page.data(), 0, page.size());
  store_le(page, at_magic, magic);
  store_le(page, at_version, seal != nullptr ? sealed_version : plain_version);
  store_le(page, at_revision, slot.revision);
  const auto body = page.subspan(at_body);
  store_le(body, body_name_bytes, static_cast<std::uint16_t>(slot.name.size()));
  store_le(body, body_keys, static_cast<std::uint16_t>(slot.keys.size()));
  store_le(body, body_ns, slot.ns.slot);
  store_le(body, body_epoch, slot.ns.epoch);
  std::memcpy(body.data() + body_name, slot.name.data(), slot.name.size());
  for (std::size_t i = 0; i < slot.keys.size(); ++i) {
    store_le(body, body_hashes + 16 * i, slot.keys[i].low);
    store_le(body, body_hashes + 16 * i + 8, slot.keys[i].high);
  }
  if (seal != nullptr) {
    GcmTag tag{};
    store_nonce(page, at_nonce, seal->nonce);
    if (!seal_whole(*seal, associated_of(page), body, tag)) {
      wipe(page);
      return false;
    }
    store_le(page, at_tag, tag);
  }
  store_le(page, at_crc, store_crc(page, store));
  return true;
}

Result<PinSlot> parse_pin_slot(std::span<const std::byte> page, const Id& store, const Sealer* sealer) {
  assert(page.size() == store_page);
  if (load_le<std::uint32_t>(page, at_magic) != magic) return fail(Code::not_found, "the page of pins is empty");
  if (load_le<std::uint32_t>(page, at_crc) != store_crc(page, store)) {
    return fail(Code::corrupt, "a page of pins is damaged");
  }
  if (load_le<std::uint32_t>(page, at_version) != (sealer != nullptr ? sealed_version : plain_version)) {
    return fail(Code::corrupt, "a page of pins is of no known version");
  }
  std::array<std::byte, body_bytes> opened;
  auto body = page.subspan(at_body);
  if (sealer != nullptr) {
    auto done = open_whole(*sealer, scope_pins, load_nonce(page, at_nonce), associated_of(page), body, opened,
                           load_le<GcmTag>(page, at_tag), "a page of pins");
    if (!done) return fail(std::move(done.error()));
    body = opened;
  }
  const std::size_t name = load_le<std::uint16_t>(body, body_name_bytes),
                    keys = load_le<std::uint16_t>(body, body_keys);
  PinSlot slot{.revision = load_le<std::uint64_t>(page, at_revision)};
  slot.ns = {.slot = load_le<std::uint16_t>(body, body_ns), .epoch = load_le<std::uint64_t>(body, body_epoch)};
  if (name > pin_name_limit || keys > pins_a_slot || slot.ns.slot >= namespace_slots) {
    return fail(Code::corrupt, "a page of pins contradicts itself");
  }
  slot.name.assign(reinterpret_cast<const char*>(body.data()) + body_name, name);
  for (std::size_t i = 0; i < keys; ++i) {
    slot.keys.push_back(
        {load_le<std::uint64_t>(body, body_hashes + 16 * i), load_le<std::uint64_t>(body, body_hashes + 16 * i + 8)});
  }
  return slot;
}

}  // namespace artesian
