#include "format/sealer.h"

#include <mutex>

#include "base/little_endian.h"

namespace artesian {
namespace {

// Openings whose keys are kept; behind it all are derived anew.
constexpr std::size_t derived_max = 4096;

std::unexpected<Error> no_memory() {
  return fail(Code::rejected, "there is no memory to derive a key, or this system's OpenSSL has no HKDF");
}

}  // namespace

Result<std::shared_ptr<Sealer>> Sealer::make(const SecretKey& store_key, const Id& store, const SecretKey& randomness) {
  std::shared_ptr<Sealer> sealer(new Sealer);
  sealer->store_key_ = store_key;
  sealer->randomness_ = randomness;
  sealer->store_ = store;
  if (!derive(store_key, store, "artesian key hash", sealer->hash_secret_) ||
      !derive(randomness, store, "artesian opening", sealer->opening_)) {
    return no_memory();
  }
  return sealer;
}

Result<SecretKey> Sealer::new_namespace_key(std::uint64_t epoch) const {
  SecretKey key;
  if (!derive(randomness_, store_, "artesian namespace " + std::to_string(epoch), key.bytes)) return no_memory();
  return key;
}

void Sealer::use_namespace(const SealScope& scope, const SecretKey& key) {
  const std::unique_lock lock(mutex_);
  namespaces_[scope.slot] = {.epoch = scope.epoch, .key = key};
  std::erase_if(derived_, [&](const auto& entry) { return std::get<0>(entry.first) == scope.slot; });
}

Result<Seal> Sealer::next(const SealScope& scope) const {
  const auto key = key_of(scope, opening_);
  if (!key) return fail(key.error());
  return Seal{.scope = scope, .key = *key, .nonce = next_nonce()};
}

Result<SecretKey> Sealer::key_of(const SealScope& scope, const Id& opening) const {
  const auto name = std::tuple(scope.slot, scope.epoch, opening);
  SecretKey from = store_key_;
  {
    const std::shared_lock lock(mutex_);
    if (const auto found = derived_.find(name); found != derived_.end()) return found->second;
    if (scope.slot < namespace_slots) {
      const auto found = namespaces_.find(scope.slot);
      if (found == namespaces_.end() || found->second.epoch != scope.epoch) {
        return fail(Code::not_found, "its namespace was erased, and the key with it");
      }
      from = found->second.key;
    }
  }
  std::array<std::byte, 2 * sizeof(Id)> salt;
  store_le(salt, 0, store_);
  store_le(salt, sizeof store_, opening);
  SecretKey key;
  if (!derive(from, salt, "artesian seal " + std::to_string(scope.slot), key.bytes)) return no_memory();
  const std::unique_lock lock(mutex_);
  if (const auto current = namespaces_.find(scope.slot);
      scope.slot < namespace_slots && (current == namespaces_.end() || current->second.epoch != scope.epoch)) {
    return fail(Code::not_found, "its namespace was erased meanwhile, and the key with it");
  }
  if (derived_.size() >= derived_max) derived_.clear();
  derived_.emplace(name, key);
  return key;
}

GcmNonce nonce_of(const SealNonce& nonce, std::uint32_t part) {
  GcmNonce bytes;
  store_le(bytes, 0, nonce.counter);
  store_le(bytes, sizeof nonce.counter, part);
  return bytes;
}

bool seal_whole(const Seal& seal, std::span<const std::byte> associated, std::span<std::byte> bytes, GcmTag& tag) {
  AesGcm gcm;
  const bool sealed = gcm.begin_seal(seal.key, nonce_of(seal.nonce, 0), associated) && gcm.add(bytes, bytes.data()) &&
                      gcm.end_seal(tag);
  if (!sealed) wipe(bytes);
  return sealed;
}

Status open_whole(const Sealer& sealer, const SealScope& scope, const SealNonce& nonce,
                  std::span<const std::byte> associated, std::span<const std::byte> in, std::span<std::byte> out,
                  const GcmTag& tag, std::string_view what) {
  const auto key = sealer.key_of(scope, nonce.opening);
  if (!key) return fail(key.error());
  AesGcm gcm;
  if (gcm.begin_open(*key, nonce_of(nonce, 0), associated) && gcm.add(in, out.data()) && gcm.end_open(tag)) return {};
  wipe(out);
  return fail(Code::corrupt, "{} is not what was sealed under this key", what);
}

void store_nonce(std::span<std::byte> bytes, std::size_t at, const SealNonce& nonce) {
  store_le(bytes, at, nonce.opening);
  store_le(bytes, at + sizeof nonce.opening, nonce.counter);
}

SealNonce load_nonce(std::span<const std::byte> bytes, std::size_t at) {
  return {load_le<Id>(bytes, at), load_le<std::uint64_t>(bytes, at + sizeof(Id))};
}

}  // namespace artesian
