#include "base/sha256.h"

#include <openssl/evp.h>

namespace artesian {

Result<Sha256> sha256(std::span<const std::byte> bytes) {
  Sha256 digest{};
  auto* out = reinterpret_cast<unsigned char*>(digest.data());
  if (EVP_Digest(bytes.data(), bytes.size(), out, nullptr, EVP_sha256(), nullptr) != 1) {
    return fail(Code::device_failed, "SHA-256 is not to be had from this system's OpenSSL");
  }
  return digest;
}

}  // namespace artesian
