// Inside transport/tls: TLS of servers whose protocol is OpenSSL's user's, as of HTTP.
#pragma once

#include <openssl/ssl.h>

#include <memory>

#include "transport/tls/certificate.h"

namespace onecopy::tls {

// INTERNAL where OpenSSL fails.
Result<std::shared_ptr<SSL_CTX>> MakeServerContext(const Chain& own, EVP_PKEY* key,
                                                   X509_STORE* authorities, const Chain& named);

}  // namespace onecopy::tls
