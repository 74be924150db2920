#include "transport/tls/keys.h"

#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <algorithm>
#include <string_view>

#include "onecopy/reasons.h"
#include "transport/tls/openssl.h"

namespace onecopy::tls {
namespace {

using Kdf = std::unique_ptr<EVP_KDF, Freer<EVP_KDF_free>>;
using KdfContext = std::unique_ptr<EVP_KDF_CTX, Freer<EVP_KDF_CTX_free>>;

const char* DigestOf(Cipher cipher) { return cipher == Cipher::kAes256Gcm ? "SHA384" : "SHA256"; }
size_t KeyBytesOf(Cipher cipher) { return cipher == Cipher::kAes128Gcm ? 16 : 32; }

// HKDF-Expand-Label with an empty context.
Status Expand(Cipher cipher, std::span<const unsigned char> secret, std::string_view label,
              std::span<unsigned char> out) {
  const Kdf kdf(EVP_KDF_fetch(nullptr, "TLS13-KDF", nullptr));
  const KdfContext context(kdf == nullptr ? nullptr : EVP_KDF_CTX_new(kdf.get()));
  int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
  std::string prefix = "tls13 ";
  std::string name(label);
  std::string digest = DigestOf(cipher);
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY,
                                        const_cast<unsigned char*>(secret.data()), secret.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_PREFIX, prefix.data(), prefix.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_LABEL, name.data(), name.size()),
      OSSL_PARAM_construct_end()};
  if (context == nullptr ||
      EVP_KDF_derive(context.get(), out.data(), out.size(), parameters) != 1) {
    return {Code::kInternal, reasons::kInternal, "deriving keys of a TLS lane: " + Complaint()};
  }
  return OkStatus();
}

}  // namespace

std::string CipherName(Cipher cipher) {
  switch (cipher) {
    case Cipher::kAes128Gcm:
      return "TLS_AES_128_GCM_SHA256";
    case Cipher::kAes256Gcm:
      return "TLS_AES_256_GCM_SHA384";
    case Cipher::kChaCha20Poly1305:
      return "TLS_CHACHA20_POLY1305_SHA256";
  }
  return "?";
}

Result<DirectionKeys> KeysOf(Cipher cipher, std::span<const unsigned char> secret) {
  DirectionKeys keys;
  keys.cipher = cipher;
  const auto kept = keys.secret.Resize(secret.size());
  std::copy(secret.begin(), secret.end(), kept.begin());
  ONECOPY_RETURN_IF_ERROR(Expand(cipher, secret, "key", keys.key.Resize(KeyBytesOf(cipher))));
  ONECOPY_RETURN_IF_ERROR(Expand(cipher, secret, "iv", keys.iv.Resize(kNonceBytes)));
  return keys;
}

Result<DirectionKeys> NextKeys(const DirectionKeys& keys) {
  SecretBytes<48> next;
  ONECOPY_RETURN_IF_ERROR(
      Expand(keys.cipher, keys.secret.get(), "traffic upd", next.Resize(keys.secret.get().size())));
  return KeysOf(keys.cipher, next.get());
}

}  // namespace onecopy::tls
