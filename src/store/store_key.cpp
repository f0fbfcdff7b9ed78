#include "store/store_key.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/hex.h"
#include "platform/file.h"

namespace artesian {
namespace {

constexpr std::size_t digits = 2 * sizeof(SecretKey::bytes);

// What the file holds; overwritten when it goes.
struct Text {
  std::array<std::byte, digits + 2> bytes{};
  ~Text() { wipe(bytes); }
};

bool read_hex(const Text& text, SecretKey& key) {
  const std::string_view characters(reinterpret_cast<const char*>(text.bytes.data()), digits);
  if (!from_hex(characters, key.bytes)) return false;
  return std::ranges::all_of(std::span(text.bytes).subspan(digits), [](std::byte end) {
    return end == std::byte{0} || end == std::byte{'\n'} || end == std::byte{'\r'};
  });
}

}  // namespace

Result<SecretKey> read_store_key(const std::string& path) {
  const auto file = File::open(path, {});
  if (!file) return fail(file.error());
  const auto owner_only = file->owner_only();
  if (!owner_only) return fail(owner_only.error());
  if (!*owner_only) {
    return fail(Code::rejected, "{}: others than its owner may use this key, the file's mode must be 0600", path);
  }
  const auto bytes = file->size();
  if (!bytes) return fail(bytes.error());
  SecretKey key;
  Text text;
  const bool hex = *bytes >= digits && *bytes <= text.bytes.size();
  if (!hex && *bytes != key.bytes.size()) {
    return fail(Code::invalid, "{}: has {} bytes, a key is 32 bytes or 64 hex digits", path, *bytes);
  }
  if (auto read = file->read(0, std::span(text.bytes).first(*bytes)); !read) return fail(std::move(read.error()));
  if (!hex) {
    std::copy_n(text.bytes.begin(), key.bytes.size(), key.bytes.begin());
  } else if (!read_hex(text, key)) {
    return fail(Code::invalid, "{}: is not 64 hex digits", path);
  }
  return key;
}

}  // namespace artesian
