// Inside transport/tls: the secrets of one direction of a connection, and what follows from them
// (RFC 8446, section 7).
#pragma once

#include <openssl/crypto.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "onecopy/result.h"

namespace onecopy::tls {

// Bytes that are wiped when they are not needed any more.
template <size_t kMost>
class SecretBytes {
 public:
  SecretBytes() = default;
  SecretBytes(const SecretBytes&) = default;
  SecretBytes& operator=(const SecretBytes&) = default;
  ~SecretBytes() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

  std::span<unsigned char> Resize(size_t count) {
    count_ = count;
    return {bytes_.data(), count};
  }
  std::span<const unsigned char> get() const { return {bytes_.data(), count_}; }
  bool empty() const { return count_ == 0; }

 private:
  std::array<unsigned char, kMost> bytes_{};
  size_t count_ = 0;
};

// Those of TLS 1.3 that both OpenSSL and the kernel have.
enum class Cipher { kAes128Gcm, kAes256Gcm, kChaCha20Poly1305 };
std::string CipherName(Cipher cipher);  // "TLS_AES_128_GCM_SHA256"

inline constexpr size_t kNonceBytes = 12;
inline constexpr size_t kTagBytes = 16;

struct DirectionKeys {
  Cipher cipher = Cipher::kAes128Gcm;
  SecretBytes<48> secret;       // the traffic secret
  SecretBytes<32> key;          // from it
  SecretBytes<kNonceBytes> iv;  // likewise
};

// The keys of a traffic secret. INTERNAL where OpenSSL fails.
Result<DirectionKeys> KeysOf(Cipher cipher, std::span<const unsigned char> secret);
// Those after a KeyUpdate.
Result<DirectionKeys> NextKeys(const DirectionKeys& keys);

}  // namespace onecopy::tls
