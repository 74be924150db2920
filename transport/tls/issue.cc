#include "transport/tls/issue.h"

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <algorithm>
#include <ctime>
#include <memory>

#include "onecopy/reasons.h"
#include "transport/tls/certificate.h"

namespace onecopy::tls {
namespace {

using X509Owner = std::unique_ptr<X509, Freer<X509_free>>;
using CrlOwner = std::unique_ptr<X509_CRL, Freer<X509_CRL_free>>;
using Time = std::unique_ptr<ASN1_TIME, Freer<ASN1_TIME_free>>;

constexpr int kSerialBits = 127;
// For nodes whose clocks are behind.
constexpr std::chrono::minutes kBackdated{10};

Status Failed(const std::string& what) {
  return {Code::kInternal, reasons::kInternal, what + ": " + Complaint()};
}

Status Wrong(const std::string& why) {
  return {Code::kInvalidArgument, reasons::kBadArgument, why};
}

Result<std::string> KeyText(EVP_PKEY* key) {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return Failed("writing a key");
  }
  return TextOf(bio.get());
}

Result<std::string> CertificateText(X509* certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(bio.get(), certificate) != 1) return Failed("writing a certificate");
  return TextOf(bio.get());
}

bool SetSerial(X509* certificate) {
  const std::unique_ptr<BIGNUM, Freer<BN_free>> number(BN_new());
  return BN_rand(number.get(), kSerialBits, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool SetTime(ASN1_TIME* time, WallTime when) {
  return ASN1_TIME_set(time, std::chrono::system_clock::to_time_t(when)) != nullptr;
}

bool Add(X509* certificate, X509* issuer, int extension, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* made = X509V3_EXT_conf_nid(nullptr, &context, extension, value.c_str());
  if (made == nullptr) return false;
  const bool added = X509_add_ext(certificate, made, -1) == 1;
  X509_EXTENSION_free(made);
  return added;
}

// The key that signs a list: two authorities may have one name, as an old one and its successor.
bool NameKey(X509_CRL* list, X509* issuer) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, nullptr, nullptr, list, 0);
  X509_EXTENSION* made =
      X509V3_EXT_conf_nid(nullptr, &context, NID_authority_key_identifier, "keyid");
  if (made == nullptr) return false;
  const bool added = X509_CRL_add_ext(list, made, -1) == 1;
  X509_EXTENSION_free(made);
  return added;
}

bool Signed(X509* issuer, const Certificate& certificate) {
  const bool by_it =
      X509_NAME_cmp(X509_get_issuer_name(certificate.x509()), X509_get_subject_name(issuer)) == 0 &&
      X509_verify(certificate.x509(), X509_get0_pubkey(issuer)) == 1;
  ERR_clear_error();
  return by_it;
}

// A certificate with all that authorities' and nodes' have in common; not signed yet.
Result<X509Owner> Begin(const std::string& name, EVP_PKEY* key, WallTime until) {
  X509Owner certificate(X509_new());
  X509_NAME* const subject = X509_get_subject_name(certificate.get());
  const auto* text = reinterpret_cast<const unsigned char*>(name.data());
  const WallTime now = std::chrono::system_clock::now();
  if (X509_set_version(certificate.get(), X509_VERSION_3) != 1 || !SetSerial(certificate.get()) ||
      !SetTime(X509_getm_notBefore(certificate.get()), now - kBackdated) ||
      !SetTime(X509_getm_notAfter(certificate.get()), until) ||
      X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, text, static_cast<int>(name.size()),
                                 -1, 0) != 1 ||
      X509_set_pubkey(certificate.get(), key) != 1) {
    return Failed("making a certificate for " + Plain(name));
  }
  return certificate;
}

struct Signer {
  Certificate certificate;
  Key key;
};

Result<Signer> Open(const Issued& authority) {
  ONECOPY_ASSIGN_OR_RETURN(Chain chain, ParseCertificates(authority.certificate));
  const Bio bio = OpenText(authority.key);
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr));
  if (key == nullptr)
    return Wrong("has no private key, or a private key with a password (" + Complaint() + ")");
  if (!chain.front().IsAuthority()) {
    return Wrong("the certificate " + chain.front().Subject() + " is not an authority's");
  }
  if (X509_check_private_key(chain.front().x509(), key.get()) != 1) {
    ERR_clear_error();
    return Wrong("the key does not belong to the authority " + chain.front().Subject());
  }
  if (chain.front().NotAfter() < std::chrono::system_clock::now()) {
    return Wrong("the authority " + chain.front().Subject() + " has expired, at " +
                 TimeText(chain.front().NotAfter()));
  }
  return Signer{chain.front(), std::move(key)};
}

// What an earlier list says is said by this one, too.
Status CopyRevoked(std::string_view text, X509_CRL* list) {
  if (text.empty()) return OkStatus();
  ONECOPY_ASSIGN_OR_RETURN(const auto earlier, ParseCrls(text));
  for (const CrlRef& one : earlier) {
    const STACK_OF(X509_REVOKED)* entries = X509_CRL_get_REVOKED(one.get());
    for (int i = 0; i < sk_X509_REVOKED_num(entries); ++i) {
      X509_REVOKED* copy = X509_REVOKED_dup(sk_X509_REVOKED_value(entries, i));
      if (copy == nullptr || X509_CRL_add0_revoked(list, copy) != 1) {
        X509_REVOKED_free(copy);
        return Failed("taking over a list of revoked certificates");
      }
    }
  }
  return OkStatus();
}

Status Add(X509_CRL* list, const Certificate& revoked, ASN1_TIME* when) {
  X509_REVOKED* known = nullptr;
  if (X509_CRL_get0_by_cert(list, &known, revoked.x509()) == 1) return OkStatus();
  X509_REVOKED* const entry = X509_REVOKED_new();
  if (entry != nullptr &&
      X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(revoked.x509())) == 1 &&
      X509_REVOKED_set_revocationDate(entry, when) == 1 &&
      X509_CRL_add0_revoked(list, entry) == 1) {
    return OkStatus();
  }
  X509_REVOKED_free(entry);
  return Failed("revoking " + revoked.Subject());
}

}  // namespace

Result<Issued> MakeAuthority(const std::string& name, std::chrono::hours valid_for) {
  const Key key(EVP_EC_gen("P-256"));
  if (key == nullptr) return Failed("making a key");
  ONECOPY_ASSIGN_OR_RETURN(const X509Owner made,
                           Begin(name, key.get(), std::chrono::system_clock::now() + valid_for));
  X509* const certificate = made.get();
  if (X509_set_issuer_name(certificate, X509_get_subject_name(certificate)) != 1 ||
      !Add(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !Add(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign") ||
      !Add(certificate, certificate, NID_subject_key_identifier, "hash") ||
      X509_sign(certificate, key.get(), EVP_sha256()) == 0) {
    return Failed("making the authority " + Plain(name));
  }
  Issued issued;
  ONECOPY_ASSIGN_OR_RETURN(issued.certificate, CertificateText(certificate));
  ONECOPY_ASSIGN_OR_RETURN(issued.key, KeyText(key.get()));
  return issued;
}

namespace {

struct Wanted {
  std::string subject;
  std::string usage;              // extendedKeyUsage
  std::string alternative_names;  // as OpenSSL reads them
};

Result<Issued> Issue(const Issued& authority, const Wanted& wanted, std::chrono::hours valid_for) {
  ONECOPY_ASSIGN_OR_RETURN(const Signer signer, Open(authority));
  X509* const issuer = signer.certificate.x509();
  const Key key(EVP_EC_gen("P-256"));
  if (key == nullptr) return Failed("making a key");
  const WallTime until =
      std::min(std::chrono::system_clock::now() + valid_for, signer.certificate.NotAfter());
  ONECOPY_ASSIGN_OR_RETURN(const X509Owner made, Begin(wanted.subject, key.get(), until));
  X509* const certificate = made.get();
  if (X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) != 1 ||
      !Add(certificate, issuer, NID_basic_constraints, "critical,CA:FALSE") ||
      !Add(certificate, issuer, NID_key_usage, "critical,digitalSignature") ||
      !Add(certificate, issuer, NID_ext_key_usage, wanted.usage) ||
      !Add(certificate, issuer, NID_subject_key_identifier, "hash") ||
      !Add(certificate, issuer, NID_authority_key_identifier, "keyid") ||
      !Add(certificate, issuer, NID_subject_alt_name, wanted.alternative_names) ||
      X509_sign(certificate, signer.key.get(), EVP_sha256()) == 0) {
    return Failed("issuing a certificate for " + wanted.subject);
  }
  Issued issued;
  ONECOPY_ASSIGN_OR_RETURN(issued.certificate, CertificateText(certificate));
  ONECOPY_ASSIGN_OR_RETURN(issued.key, KeyText(key.get()));
  return issued;
}

}  // namespace

Result<Issued> IssueForNode(const Issued& authority, const std::string& node,
                            std::chrono::hours valid_for) {
  const std::string names = "DNS:" + node + ",URI:" + std::string(kNodeUri) + node;
  return Issue(authority, {node, "serverAuth,clientAuth", names}, valid_for);
}

Result<Issued> IssueForUser(const Issued& authority, uint32_t uid,
                            const std::vector<std::string>& nodes, std::chrono::hours valid_for) {
  if (nodes.empty()) return Wrong("a user's certificate needs at least one node");
  std::string names;
  for (const std::string& node : nodes) {
    names += (names.empty() ? "URI:" : ",URI:") + std::string(kUserUri) + std::to_string(uid) +
             "@" + node;
  }
  return Issue(authority, {"user " + std::to_string(uid), "clientAuth", names}, valid_for);
}

Result<std::string> Revoke(const Issued& authority, std::string_view list, const Chain& revoked,
                           std::chrono::hours valid_for) {
  ONECOPY_ASSIGN_OR_RETURN(const Signer signer, Open(authority));
  X509* const issuer = signer.certificate.x509();
  const CrlOwner made(X509_CRL_new());
  const Time now(ASN1_TIME_new());
  const Time next(ASN1_TIME_new());
  const WallTime wall = std::chrono::system_clock::now();
  if (!SetTime(now.get(), wall - kBackdated) || !SetTime(next.get(), wall + valid_for) ||
      X509_CRL_set_version(made.get(), X509_CRL_VERSION_2) != 1 ||
      X509_CRL_set_issuer_name(made.get(), X509_get_subject_name(issuer)) != 1 ||
      X509_CRL_set1_lastUpdate(made.get(), now.get()) != 1 ||
      X509_CRL_set1_nextUpdate(made.get(), next.get()) != 1 || !NameKey(made.get(), issuer)) {
    return Failed("making a list of revoked certificates");
  }
  ONECOPY_RETURN_IF_ERROR(CopyRevoked(list, made.get()));
  for (const Certificate& certificate : revoked) {
    if (!Signed(issuer, certificate)) {
      return Wrong(certificate.Subject() + " was issued by " + certificate.Issuer() +
                   ", not by this authority, " + signer.certificate.Subject());
    }
    ONECOPY_RETURN_IF_ERROR(Add(made.get(), certificate, now.get()));
  }
  X509_CRL_sort(made.get());
  if (X509_CRL_sign(made.get(), signer.key.get(), EVP_sha256()) == 0) {
    return Failed("signing a list of revoked certificates");
  }
  const Bio bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509_CRL(bio.get(), made.get()) != 1) return Failed("writing that list");
  return TextOf(bio.get());
}

}  // namespace onecopy::tls
