// Lists of certificates that count no more.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transport/tls/certificate.h"

namespace onecopy::tls {

// At least one list; INVALID_ARGUMENT (BAD_CONFIG) otherwise.
Result<std::vector<CrlRef>> ParseCrls(std::string_view pem);

// When the next list is due, after which this one counts no more; nothing where it never is.
std::optional<WallTime> NextUpdate(const X509_CRL* list);

struct RevokedList {
  std::string issuer;                // unprintable bytes as '?'
  WallTime since;                    // when it was made
  std::optional<WallTime> next;      // as NextUpdate
  std::vector<std::string> serials;  // of the certificates, hexadecimal
};
RevokedList Describe(const X509_CRL* list);

}  // namespace onecopy::tls
