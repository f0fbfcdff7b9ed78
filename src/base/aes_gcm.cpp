#include "base/aes_gcm.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <string>

namespace artesian {
namespace {

const unsigned char* data_of(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

// Looked up once: each look-up by name takes a lock and a microsecond.
const EVP_CIPHER* cipher() {
  static EVP_CIPHER* const found = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);
  return found;
}

}  // namespace

void wipe(std::span<std::byte> bytes) {
  OPENSSL_cleanse(bytes.data(), bytes.size());
}

AesGcm::AesGcm() : context_(EVP_CIPHER_CTX_new()) {}

AesGcm::~AesGcm() {
  EVP_CIPHER_CTX_free(context_);
}

bool AesGcm::begin(bool seal, const SecretKey& key, const GcmNonce& nonce, std::span<const std::byte> associated) {
  if (context_ == nullptr || cipher() == nullptr) return false;
  int bytes = 0;
  return EVP_CipherInit_ex2(context_, cipher(), data_of(key.bytes), data_of(nonce), seal ? 1 : 0, nullptr) == 1 &&
         (associated.empty() ||
          EVP_CipherUpdate(context_, nullptr, &bytes, data_of(associated), static_cast<int>(associated.size())) == 1);
}

bool AesGcm::add(std::span<const std::byte> in, std::byte* out) {
  if (in.empty()) return true;
  int bytes = 0;
  return EVP_CipherUpdate(context_, reinterpret_cast<unsigned char*>(out), &bytes, data_of(in),
                          static_cast<int>(in.size())) == 1 &&
         static_cast<std::size_t>(bytes) == in.size();
}

bool AesGcm::end_seal(GcmTag& tag) {
  int bytes = 0;
  return EVP_CipherFinal_ex(context_, reinterpret_cast<unsigned char*>(tag.data()), &bytes) == 1 &&
         EVP_CIPHER_CTX_ctrl(context_, EVP_CTRL_AEAD_GET_TAG, static_cast<int>(tag.size()), tag.data()) == 1;
}

bool AesGcm::end_open(const GcmTag& tag) {
  GcmTag expected = tag;
  int bytes = 0;
  return EVP_CIPHER_CTX_ctrl(context_, EVP_CTRL_AEAD_SET_TAG, static_cast<int>(expected.size()), expected.data()) ==
             1 &&
         EVP_CipherFinal_ex(context_, reinterpret_cast<unsigned char*>(expected.data()), &bytes) == 1;
}

bool derive(const SecretKey& from, std::span<const std::byte> salt, std::string_view label, std::span<std::byte> out) {
  EVP_KDF* kdf = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
  EVP_KDF_CTX* context = EVP_KDF_CTX_new(kdf);
  EVP_KDF_free(kdf);
  if (context == nullptr) return false;
  SecretKey key = from;  // the library's parameters are not const
  std::string digest = "SHA256", info(label);
  std::string salted(reinterpret_cast<const char*>(salt.data()), salt.size());
  const OSSL_PARAM params[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, key.bytes.data(), key.bytes.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, salted.data(), salted.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info.data(), info.size()), OSSL_PARAM_construct_end()};
  const int derived = EVP_KDF_derive(context, reinterpret_cast<unsigned char*>(out.data()), out.size(), params);
  EVP_KDF_CTX_free(context);
  return derived == 1;
}

}  // namespace artesian
