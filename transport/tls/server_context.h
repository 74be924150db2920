// Inside transport/tls: TLS for servers of other protocols, such as HTTP.
#pragma once

#include <openssl/ssl.h>

#include <memory>

#include "transport/tls/certificate.h"

namespace onecopy::tls {

// INTERNAL where OpenSSL fails.
Result<std::shared_ptr<SSL_CTX>> MakeServerContext(const Chain& own, EVP_PKEY* key,
                                                   X509_STORE* authorities, const Chain& named);

}  // namespace onecopy::tls
