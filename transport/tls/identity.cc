#include "transport/tls/identity.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/tls/certificate.h"
#include "transport/tls/key_file.h"
#include "transport/tls/lane_context.h"
#include "transport/tls/server_context.h"

namespace onecopy::tls {
namespace {

using StoreContext = std::unique_ptr<X509_STORE_CTX, Freer<X509_STORE_CTX_free>>;

void FreeStack(STACK_OF(X509) * certificates) { sk_X509_free(certificates); }

// An authority between may have no list of its own; the certificate itself must be on none, and the
// list that would name it must be there.
int ForgiveMissingLists(int ok, X509_STORE_CTX* context) {
  if (ok == 0 && X509_STORE_CTX_get_error(context) == X509_V_ERR_UNABLE_TO_GET_CRL &&
      X509_STORE_CTX_get_error_depth(context) > 0) {
    X509_STORE_CTX_set_error(context, X509_V_OK);
    return 1;
  }
  return ok;
}

Status Refuse(std::string message, std::string remedy) {
  return {Code::kUnauthenticated, reasons::kCertRejected, std::move(message), std::move(remedy)};
}

std::string Join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text.empty() ? "none" : text;
}

template <typename T>
Result<T> In(const std::string& file, Result<T> parsed) {
  if (parsed.ok()) return parsed;
  return BadFile(file, parsed.status().message());
}

}  // namespace

bool EndsSoon(const Expiry& expiry, WallTime now) {
  constexpr std::chrono::hours kMonth{30 * 24};
  const auto left = expiry.when - now;
  return left < kMonth && left < (expiry.when - expiry.since) / 5;
}

Result<std::shared_ptr<const Identity>> Identity::Load(const Files& files,
                                                       const std::string& node) {
  std::shared_ptr<Identity> identity(new Identity);
  ONECOPY_RETURN_IF_ERROR(identity->Read(files));
  ONECOPY_RETURN_IF_ERROR(identity->CheckOwn(files, node));
  ONECOPY_RETURN_IF_ERROR(identity->PrepareContexts());
  return std::shared_ptr<const Identity>(std::move(identity));
}

Status Identity::Read(const Files& files) {
  ONECOPY_ASSIGN_OR_RETURN(ca_, ReadPem(files.ca));
  ONECOPY_ASSIGN_OR_RETURN(certificate_, ReadPem(files.certificate));
  ONECOPY_ASSIGN_OR_RETURN(key_, ReadPrivateKey(files.key));
  ONECOPY_ASSIGN_OR_RETURN(authorities_, In(files.ca, ParseCertificates(ca_)));
  ONECOPY_ASSIGN_OR_RETURN(own_, In(files.certificate, ParseCertificates(certificate_)));
  store_ = std::shared_ptr<X509_STORE>(X509_STORE_new(), X509_STORE_free);
  unsigned long flags = X509_V_FLAG_PARTIAL_CHAIN;  // any of the authorities may be the last
  for (const Certificate& authority : authorities_) {
    X509_STORE_add_cert(store_.get(), authority.x509());
  }
  if (!files.crl.empty()) {
    ONECOPY_ASSIGN_OR_RETURN(crl_, ReadPem(files.crl));
    ONECOPY_ASSIGN_OR_RETURN(revoked_, In(files.crl, ParseCrls(crl_)));
    for (const CrlRef& list : revoked_) X509_STORE_add_crl(store_.get(), list.get());
    flags |= X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL;
    X509_STORE_set_verify_cb(store_.get(), ForgiveMissingLists);
  }
  X509_STORE_set_flags(store_.get(), flags);
  ERR_clear_error();  // an authority that is there twice is not an error

  expiries_.push_back(
      {"the certificate of this node", files.certificate, own().NotBefore(), own().NotAfter()});
  for (const Certificate& authority : authorities_) {
    expiries_.push_back({"the authority " + authority.Subject(), files.ca, authority.NotBefore(),
                         authority.NotAfter()});
  }
  for (const CrlRef& list : revoked_) {
    if (const auto next = NextUpdate(list.get())) {
      expiries_.push_back({"the list of revoked certificates", files.crl,
                           TimeOf(X509_CRL_get0_lastUpdate(list.get())), *next});
    }
  }
  std::stable_sort(expiries_.begin(), expiries_.end(),
                   [](const Expiry& a, const Expiry& b) { return a.when < b.when; });
  return OkStatus();
}

Status Identity::CheckOwn(const Files& files, const std::string& node) const {
  const WallTime now = std::chrono::system_clock::now();
  if (now < own().NotBefore()) {
    return BadFile(files.certificate, "is not valid before " + TimeText(own().NotBefore()),
                   "check this machine's clock");
  }
  if (now > own().NotAfter()) {
    return BadFile(files.certificate, "has expired, at " + TimeText(own().NotAfter()),
                   "issue a new one: onecopy cert issue, or your CA");
  }
  const Bio bio = OpenText(key_);
  const Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr));
  if (key == nullptr) {
    return BadFile(files.key,
                   "has no private key, or a private key with a password (" + Complaint() + ")");
  }
  if (X509_check_private_key(own().x509(), key.get()) != 1) {
    ERR_clear_error();
    return BadFile(files.key, "is not the key of " + files.certificate);
  }
  for (const int purpose : {X509_PURPOSE_SSL_SERVER, X509_PURPOSE_SSL_CLIENT}) {
    if (X509_check_purpose(own().x509(), purpose, 0) != 1) {
      return BadFile(files.certificate,
                     "must allow use by a server and by a client, because a daemon is both: its "
                     "extendedKeyUsage needs serverAuth and clientAuth");
    }
  }
  // What peers will say of it.
  for (const Side side : {Side::kClient, Side::kServer}) {
    if (const auto fault = ChainFault(own_, side)) {
      return BadFile(files.certificate, "would be refused with " + files.ca +
                                            (files.crl.empty() ? "" : " and " + files.crl) + ": " +
                                            *fault);
    }
  }
  if (!own().IsFor(node)) {
    return BadFile(files.certificate,
                   "is not for this node: its subject alternative names lack DNS:" + node +
                       " (they are: " + Join(own().Names()) + "; capitals count)");
  }
  return OkStatus();
}

Status Identity::PrepareContexts() {
  const Bio bio = OpenText(key_);
  const Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr));
  ONECOPY_ASSIGN_OR_RETURN(lane_context_, MakeLaneContext(own_, key.get(), store_.get()));
  ONECOPY_ASSIGN_OR_RETURN(server_context_,
                           MakeServerContext(own_, key.get(), store_.get(), authorities_));
  return OkStatus();
}

std::optional<std::string> Identity::ChainFault(const Chain& presented, Side side) const {
  const std::unique_ptr<STACK_OF(X509), Freer<FreeStack>> between(sk_X509_new_null());
  for (size_t i = 1; i < presented.size(); ++i) sk_X509_push(between.get(), presented[i].x509());
  const StoreContext context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store_.get(), presented.front().x509(), between.get());
  X509_STORE_CTX_set_purpose(
      context.get(), side == Side::kServer ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT);
  if (X509_verify_cert(context.get()) == 1) return std::nullopt;
  ERR_clear_error();
  return X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()));
}

Result<uint32_t> Identity::VerifyUser(const Chain& presented, const std::string& node) const {
  if (presented.empty()) return Refuse("the client presents no certificate", "");
  const Certificate& certificate = presented.front();
  const std::string whose = "the client's certificate (" + certificate.Subject() + ", serial " +
                            certificate.Serial() + ")";
  if (const auto fault = ChainFault(presented, Side::kClient)) {
    return Refuse(
        whose + " is not accepted here: " + *fault,
        "present a valid client certificate of the authority in [tls] ca that is not revoked");
  }
  Certificate::User user = certificate.UserAt(node);
  if (user.fault.empty()) return user.uid;
  return Refuse(
      whose + " " + user.fault + ": its subject alternative names are " + Join(certificate.Names()),
      "present one for URI:" + std::string(kUserUri) + "UID@" + node +
          " and no node: onecopy cert issue-user makes it");
}

Status Identity::Verify(const Chain& presented, const std::string& node, Side side) const {
  if (presented.empty()) return Refuse("node " + node + " presents no certificate", "");
  const std::string whose = "the certificate presented for node " + node + " (" +
                            presented.front().Subject() + ", serial " + presented.front().Serial() +
                            ")";
  if (const auto fault = ChainFault(presented, side)) {
    return Refuse(whose + " is not accepted here: " + *fault,
                  "check [tls] on both nodes: the same authority, and a valid certificate of it "
                  "that is not revoked");
  }
  if (!presented.front().IsFor(node)) {
    return Refuse(whose + " is not for node " + node + ": its subject alternative names are " +
                      Join(presented.front().Names()),
                  "give that node a certificate with DNS:" + node +
                      " among its subject alternative names (capitals count)");
  }
  return OkStatus();
}

bool Identity::SameFiles(const Identity& other) const {
  return ca_ == other.ca_ && certificate_ == other.certificate_ && key_ == other.key_ &&
         crl_ == other.crl_;
}

}  // namespace onecopy::tls
