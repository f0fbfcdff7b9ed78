#include "gateway/fingerprint.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <charconv>
#include <memory>

#include "base/units.h"
#include "format/gguf_model.h"
#include "gateway/json_file.h"
#include "platform/file.h"
#include "platform/file_version.h"

namespace artesian {
namespace {

using nlohmann::json;

constexpr std::size_t piece_bytes = 4 * MiB;
constexpr std::size_t remembered_max = 256;         // models
constexpr std::int64_t settled_ns = 2'000'000'000;  // since the last change; coarser than any file system's clock

Status add_file(XXH3_state_t& state, const std::string& path, std::span<std::byte> piece) {
  const auto file = File::open(path, {});
  if (!file) return fail(file.error());
  std::uint64_t offset = 0;
  while (true) {
    const auto got = file->read_some(offset, piece);
    if (!got) return fail(got.error());
    if (*got == 0) break;
    XXH3_128bits_update(&state, piece.data(), *got);
    offset += *got;
  }
  XXH3_128bits_update(&state, &offset, sizeof offset);
  return {};
}

// Which files they are, as text; and when the last of them was changed.
struct Identity {
  std::string text;
  std::int64_t changed_ns = 0;
};

Result<Identity> identity_of(const std::vector<std::string>& paths) {
  Identity all;
  for (const std::string& path : paths) {
    const auto version = file_version(path);
    if (!version) return fail(version.error());
    all.text += fmt::format("{}:{}:{}:{};", version->device, version->inode, version->bytes, version->changed_ns);
    all.changed_ns = std::max(all.changed_ns, version->changed_ns);
  }
  return all;
}

// A file that was changed just before may be changed once more without its time telling: that one is read again the
// next time.
Status remember(const std::string& path, const Identity& identity, const std::string& fingerprint) {
  json known = read_json_file(path);
  if (known.size() >= remembered_max) known = json::object();
  known[identity.text] = fingerprint;
  return write_json_file(path, known, [&identity](const FileVersion& fresh) {
    return fresh.changed_ns - identity.changed_ns >= settled_ns;
  });
}

Result<std::string> read_files(const std::vector<std::string>& paths) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  if (state == nullptr) return fail(Code::device_failed, "fingerprint: there is no memory");
  XXH3_128bits_reset(state.get());
  std::vector<std::byte> piece(piece_bytes);
  for (const std::string& path : paths) {
    if (auto added = add_file(*state, path, piece); !added) return fail(std::move(added.error()));
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  return fmt::format("xxh3:{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

Result<std::string> fingerprint_files(const std::vector<std::string>& paths, const std::string& memory) {
  const auto identity = identity_of(paths);
  if (!identity) return fail(identity.error());
  if (!memory.empty()) {
    const json known = read_json_file(memory);
    const auto found = known.find(identity->text);
    if (found != known.end() && found->is_string()) return found->get<std::string>();
  }
  auto fingerprint = read_files(paths);
  const auto after = identity_of(paths);
  const bool same = after && after->text == identity->text;  // nobody changed one while it was read
  if (fingerprint && same && !memory.empty()) static_cast<void>(remember(memory, *identity, *fingerprint));
  return fingerprint;
}

std::vector<std::string> model_files(const std::string& path) {
  // prefix-00001-of-00003.gguf
  const std::size_t of = path.rfind("-of-");
  unsigned count = 0;
  if (of != std::string::npos) std::from_chars(path.data() + of + 4, path.data() + path.size(), count);
  const auto prefix = count > 0 ? shard_prefix(path, 0, count) : std::nullopt;
  if (!prefix) return {path};
  std::vector<std::string> files;
  for (unsigned i = 0; i < count; ++i) files.push_back(shard_path(*prefix, i, count));
  return files;
}

}  // namespace artesian
