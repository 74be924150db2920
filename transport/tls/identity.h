// This node's certificate and key, and the authorities that it trusts: the files of [tls], read
// once and checked.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transport/tls/certificate.h"

namespace onecopy::tls {

struct Files {
  std::string ca;           // whose certificates peers must have
  std::string certificate;  // this node's, with those between it and the CA
  std::string key;          // of that certificate
  std::string crl;          // revoked certificates; empty: no such list

  friend bool operator==(const Files&, const Files&) = default;
};

// What the owner of a certificate is on a connection.
enum class Side { kClient, kServer };

// Something of the files that ends.
struct Expiry {
  std::string what;  // "certificate of this node", "authority CN=x", "list of revoked certificates"
  std::string file;
  WallTime since;
  WallTime when;
};
// Whether it is time to do something about it: less than 30 days are left, and less than a fifth of
// its whole time.
bool EndsSoon(const Expiry& expiry, WallTime now);

// Never changes; any thread.
class Identity {
 public:
  // Reads and checks the files. Fails, naming the file, where one cannot be read or is not what it
  // should be: no certificate, a key that is not the certificate's or that others may read, a
  // certificate that is not valid now, revoked, not signed by the CA, not for a server and client
  // both, or not for `node`.
  static Result<std::shared_ptr<const Identity>> Load(const Files& files, const std::string& node);

  // Whether what the far end presents as `node` proves that now: signed by one of the authorities,
  // not revoked, valid, for this side, and for that name. UNAUTHENTICATED (CERT_REJECTED)
  // otherwise.
  Status Verify(const Chain& presented, const std::string& node, Side side) const;

  // The uid of the user of `node` whose certificate the far end presents, now: likewise signed,
  // valid and not revoked, as a client's, and as Certificate::UserAt has it. UNAUTHENTICATED
  // (CERT_REJECTED) otherwise.
  Result<uint32_t> VerifyUser(const Chain& presented, const std::string& node) const;

  const std::string& ca() const { return ca_; }                    // PEM
  const std::string& certificate() const { return certificate_; }  // PEM, with those between
  const std::string& key() const { return key_; }                  // PEM: a secret
  const Certificate& own() const { return own_.front(); }

  SSL_CTX* lane_context() const { return lane_context_.get(); }  // for Handshake
  // For servers of other protocols than gRPC: shows this node's certificate, and asks for one of
  // the authorities', a client's, valid and not revoked, without which the handshake fails.
  SSL_CTX* server_context() const { return server_context_.get(); }

  // Whatever ends, the soonest first.
  const std::vector<Expiry>& expiries() const { return expiries_; }

  // Whether the files said the same.
  bool SameFiles(const Identity& other) const;

 private:
  Identity() = default;
  Status Read(const Files& files);
  Status PrepareContexts();
  Status CheckOwn(const Files& files, const std::string& node) const;
  // Nothing where the chain is good, else OpenSSL's words.
  std::optional<std::string> ChainFault(const Chain& presented, Side side) const;

  std::string ca_;
  std::string certificate_;
  std::string key_;
  std::string crl_;
  Chain own_;
  Chain authorities_;
  std::vector<CrlRef> revoked_;
  std::shared_ptr<X509_STORE> store_;
  std::shared_ptr<SSL_CTX> lane_context_;
  std::shared_ptr<SSL_CTX> server_context_;
  std::vector<Expiry> expiries_;
};

}  // namespace onecopy::tls
