#include "gateway/fingerprint.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <charconv>
#include <memory>

#include "base/units.h"
#include "format/gguf_model.h"
#include "platform/file.h"

namespace artesian {
namespace {

constexpr std::size_t piece_bytes = 4 * MiB;

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

}  // namespace

Result<std::string> fingerprint_files(const std::vector<std::string>& paths) {
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
