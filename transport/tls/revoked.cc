#include "transport/tls/revoked.h"

#include <openssl/pem.h>

#include "onecopy/reasons.h"

namespace onecopy::tls {

Result<std::vector<CrlRef>> ParseCrls(std::string_view pem) {
  const Bio bio = OpenText(pem);
  std::vector<CrlRef> lists;
  while (X509_CRL* next = PEM_read_bio_X509_CRL(bio.get(), nullptr, NoPassword, nullptr)) {
    lists.push_back(Own(next));
  }
  const std::string complaint = Complaint();
  if (!lists.empty()) return lists;
  return Status(Code::kInvalidArgument, reasons::kBadConfig,
                "has no list of revoked certificates in PEM form (" + complaint + ")");
}

std::optional<WallTime> NextUpdate(const X509_CRL* list) {
  const ASN1_TIME* next = X509_CRL_get0_nextUpdate(list);
  if (next == nullptr) return std::nullopt;
  return TimeOf(next);
}

RevokedList Describe(const X509_CRL* list) {
  RevokedList described{NameText(X509_CRL_get_issuer(list)),
                        TimeOf(X509_CRL_get0_lastUpdate(list)),
                        NextUpdate(list),
                        {}};
  // OpenSSL's reader changes nothing of the list, whatever its signature says.
  const STACK_OF(X509_REVOKED)* entries = X509_CRL_get_REVOKED(const_cast<X509_CRL*>(list));
  for (int i = 0; i < sk_X509_REVOKED_num(entries); ++i) {
    described.serials.push_back(
        NumberText(X509_REVOKED_get0_serialNumber(sk_X509_REVOKED_value(entries, i))));
  }
  return described;
}

}  // namespace onecopy::tls
