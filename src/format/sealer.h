// The keys of an encrypted store, and the nonces: what is sealed under which key, so that no nonce is ever used twice.
//
// Each opening of a store draws 16 random bytes, and everything it seals is sealed under keys derived with them, each
// time under the next number of a counter that lives in memory alone. So nothing that a power cut, a lost write or a
// copy of the file brings back can make a nonce be used again: the next opening has other keys.
//
// Threads: safe from any thread. Errors: not_found where a namespace was erased, and its key with it; corrupt where
// bytes are not what was sealed; rejected where the library has no memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string_view>
#include <tuple>

#include "base/aes_gcm.h"
#include "format/store_format.h"

namespace artesian {

// Whose key: a namespace's, or one of the store's own.
struct SealScope {
  std::uint16_t slot = 0;  // in the namespace table
  std::uint64_t epoch = 0;
};
constexpr SealScope scope_table{.slot = 0xFFFF}, scope_index{.slot = 0xFFFE}, scope_records{.slot = 0xFFFD},
    scope_pins{.slot = 0xFFFC};

struct SealNonce {
  Id opening{};
  std::uint64_t counter = 0;
};

// Everything needed to seal one thing, which may be of several parts.
struct Seal {
  SealScope scope;
  SecretKey key;  // of that scope in this opening
  SealNonce nonce;
};

class Sealer {
 public:
  // `randomness`: 32 bytes, new for each opening of the store, never written anywhere.
  static Result<std::shared_ptr<Sealer>> make(const SecretKey& store_key, const Id& store, const SecretKey& randomness);

  const HashSecret& hash_secret() const { return hash_secret_; }  // of the key hash

  // A key that nobody can derive later: it is in the namespace table, and gone when it is erased there.
  Result<SecretKey> new_namespace_key(std::uint64_t epoch) const;
  // From now on the slot's key, in place of the one before, which is forgotten.
  void use_namespace(const SealScope& scope, const SecretKey& key);

  // To seal something with: each has a nonce of its own.
  Result<Seal> next(const SealScope& scope) const;
  SealNonce next_nonce() const { return {opening_, ++counter_}; }
  Result<SecretKey> key_of(const SealScope& scope, const Id& opening) const;

 private:
  struct NamespaceKey {
    std::uint64_t epoch = 0;
    SecretKey key;
  };
  using Derived = std::map<std::tuple<std::uint16_t, std::uint64_t, Id>, SecretKey>;

  Sealer() = default;

  SecretKey store_key_, randomness_;
  Id store_{}, opening_{};
  HashSecret hash_secret_{};
  mutable std::atomic<std::uint64_t> counter_{0};
  mutable std::shared_mutex mutex_;  // guards the maps
  std::map<std::uint16_t, NamespaceKey> namespaces_;
  mutable Derived derived_;
};

// What is one part, sealed in place. False, with `bytes` wiped, where it cannot be.
bool seal_whole(const Seal& seal, std::span<const std::byte> associated, std::span<std::byte> bytes, GcmTag& tag);
// What was sealed so, into `out`, as large. corrupt, with `out` wiped, where `what` is not what was sealed under this
// key; or as key_of().
Status open_whole(const Sealer& sealer, const SealScope& scope, const SealNonce& nonce,
                  std::span<const std::byte> associated, std::span<const std::byte> in, std::span<std::byte> out,
                  const GcmTag& tag, std::string_view what);
GcmNonce nonce_of(const SealNonce& nonce, std::uint32_t part);

// How a nonce lies on flash: 24 bytes.
void store_nonce(std::span<std::byte> bytes, std::size_t at, const SealNonce& nonce);
SealNonce load_nonce(std::span<const std::byte> bytes, std::size_t at);

}  // namespace artesian
