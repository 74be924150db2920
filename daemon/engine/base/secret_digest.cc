#include "daemon/engine/base/secret_digest.h"

#include <openssl/evp.h>

#include <cstdlib>

namespace onecopy::engine {

SecretDigest::SecretDigest(std::string_view secret) {
  // Fails where memory is exhausted, or OpenSSL was built without SHA-256: nothing could go on.
  if (EVP_Digest(secret.data(), secret.size(), bytes_.data(), nullptr, EVP_sha256(), nullptr) !=
      1) {
    std::abort();
  }
}

}  // namespace onecopy::engine
