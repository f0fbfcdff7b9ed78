// AES-256-GCM and key derivation by OpenSSL's EVP: bytes sealed so that nobody without the key can read them, and
// nobody at all can change them unnoticed.
//
// Threads: an AesGcm is one thread's at a time; the rest is pure. Who seals sees to it that no nonce is used twice with
// one key: one such pair gives away both texts. Errors: false where the library has no memory, or a tag does not fit.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

struct evp_cipher_ctx_st;

namespace artesian {

// Overwrites what was secret; not left out by the compiler.
void wipe(std::span<std::byte> bytes);

// Is overwritten when it goes.
struct SecretKey {
  std::array<std::byte, 32> bytes{};

  SecretKey() = default;
  explicit SecretKey(const std::array<std::byte, 32>& key) : bytes(key) {}
  SecretKey(const SecretKey&) = default;
  SecretKey& operator=(const SecretKey&) = default;
  ~SecretKey() { wipe(bytes); }
};

using GcmNonce = std::array<std::byte, 12>;
using GcmTag = std::array<std::byte, 16>;

class AesGcm {
 public:
  AesGcm();
  ~AesGcm();
  AesGcm(const AesGcm&) = delete;
  AesGcm& operator=(const AesGcm&) = delete;

  // `associated` is not sealed, but must be the same when it is opened.
  bool begin_seal(const SecretKey& key, const GcmNonce& nonce, std::span<const std::byte> associated) {
    return begin(true, key, nonce, associated);
  }
  bool begin_open(const SecretKey& key, const GcmNonce& nonce, std::span<const std::byte> associated) {
    return begin(false, key, nonce, associated);
  }
  // The next bytes, of any number, to `out`, which has room for as many and may be where they are.
  bool add(std::span<const std::byte> in, std::byte* out);
  bool end_seal(GcmTag& tag);
  // False: it is not what was sealed, and none of the bytes that came out may be used.
  bool end_open(const GcmTag& tag);

 private:
  bool begin(bool seal, const SecretKey& key, const GcmNonce& nonce, std::span<const std::byte> associated);

  evp_cipher_ctx_st* context_ = nullptr;
};

// HKDF with SHA-256: `out` from a key that is random, a salt and a label; other salts and labels give unrelated bytes.
bool derive(const SecretKey& from, std::span<const std::byte> salt, std::string_view label, std::span<std::byte> out);

}  // namespace artesian
