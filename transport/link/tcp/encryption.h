// Whether this node's lanes are encrypted, and how.
#pragma once

#include <memory>
#include <string>

#include "transport/tls/trust.h"

namespace onecopy::tcp {

struct Encryption {
  std::shared_ptr<tls::Trust> trust;  // null: they cannot be
  bool required = false;              // no connection is made without
  bool by_kernel = false;             // this kernel can, and is to; else the daemon does

  bool possible() const { return trust != nullptr; }
};

// Why two ends cannot agree; success where they can, and then whether lanes are encrypted.
// FAILED_PRECONDITION (INSECURE): one of them needs it, and the other has no certificate.
Result<bool> AgreeOnEncryption(const Encryption& own, const std::string& peer, bool peer_can,
                               bool peer_requires);

// "TLS 1.3, CIPHER, by daemon", or "by kernel > daemon" where the source's end and this one differ.
std::string EncryptionText(const std::string& cipher, bool source_by_kernel, bool own_by_kernel);

}  // namespace onecopy::tcp
