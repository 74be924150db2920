// X.509 certificates as onecopy uses them, and lists of revoked ones.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transport/tls/openssl.h"

namespace onecopy::tls {

using WallTime = std::chrono::system_clock::time_point;

// URI of a node in a certificate, beside its DNS name: "onecopy://east".
inline constexpr std::string_view kNodeUri = "onecopy://";
// URI of a user at a node: "onecopy://user/1000@west". No node has a name with a '/' in it.
inline constexpr std::string_view kUserUri = "onecopy://user/";

// A value that shares what it refers to; any thread.
class Certificate {
 public:
  explicit Certificate(X509Ref x509) : x509_(std::move(x509)) {}

  X509* x509() const { return x509_.get(); }

  // The one place where names are compared. A certificate is for `node` where its subject
  // alternative names have DNS:node or URI:onecopy://node, letter for letter: nodes whose names
  // differ in capitals alone are two nodes. The common name does not count, nor do wildcards.
  // One that is for a user is for no node.
  bool IsFor(std::string_view node) const;

  // The uid of the user that it is for at `node`: of URI:onecopy://user/UID@NODE among its subject
  // alternative names. Why not, in words ("names no user of node west"), where there is not exactly
  // one, one of those URIs is not of that form, or it is for a node as well.
  struct User {
    uint32_t uid = 0;
    std::string fault;  // empty: there is one
  };
  User UserAt(std::string_view node) const;

  // The names that IsFor looks at, as "DNS:east" and "URI:onecopy://east"; unprintable bytes as
  // '?'.
  std::vector<std::string> Names() const;

  std::string Subject() const;  // "CN=east"; unprintable bytes as '?'
  std::string Issuer() const;
  std::string Serial() const;       // hexadecimal
  std::string Fingerprint() const;  // SHA-256 of all of it, hexadecimal
  bool IsAuthority() const;
  WallTime NotBefore() const;
  WallTime NotAfter() const;

 private:
  X509Ref x509_;
};

// First the certificate that the far end presents, then those that lead from it to an authority.
using Chain = std::vector<Certificate>;

// At least one; INVALID_ARGUMENT (BAD_CONFIG) with OpenSSL's words otherwise.
Result<Chain> ParseCertificates(std::string_view pem);

// "2027-01-31 12:00 UTC".
std::string TimeText(WallTime time);

// As ASN.1 has them: a time, a name ("CN=east", unprintable bytes as '?'), and a number in
// hexadecimal.
WallTime TimeOf(const ASN1_TIME* time);
std::string NameText(const X509_NAME* name);
std::string NumberText(const ASN1_INTEGER* number);

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
