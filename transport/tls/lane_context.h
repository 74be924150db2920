// Inside transport/tls: what all handshakes of one identity have in common.
#pragma once

#include <openssl/ssl.h>

#include <memory>

#include "transport/tls/certificate.h"

namespace onecopy::tls {

// INTERNAL where OpenSSL fails.
Result<std::shared_ptr<SSL_CTX>> MakeLaneContext(const Chain& own, EVP_PKEY* key,
                                                 X509_STORE* authorities);

}  // namespace onecopy::tls
