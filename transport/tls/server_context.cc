#include "transport/tls/server_context.h"

#include "onecopy/reasons.h"

namespace onecopy::tls {

Result<std::shared_ptr<SSL_CTX>> MakeServerContext(const Chain& own, EVP_PKEY* key,
                                                   X509_STORE* authorities, const Chain& named) {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  SSL_CTX* const raw = context.get();
  bool right = raw != nullptr && SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION) == 1 &&
               SSL_CTX_use_certificate(raw, own.front().x509()) == 1 &&
               SSL_CTX_use_PrivateKey(raw, key) == 1 &&
               SSL_CTX_set1_verify_cert_store(raw, authorities) == 1 &&
               SSL_CTX_set_num_tickets(raw, 0) == 1;
  for (size_t i = 1; right && i < own.size(); ++i) {
    right = SSL_CTX_add1_chain_cert(raw, own[i].x509()) == 1;
  }
  // So that a client knows which of its certificates to show.
  for (size_t i = 0; right && i < named.size(); ++i) {
    right = SSL_CTX_add_client_CA(raw, named[i].x509()) == 1;
  }
  if (!right) {
    return Status(Code::kInternal, reasons::kInternal, "preparing a TLS server: " + Complaint());
  }
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(raw, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
  SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return context;
}

}  // namespace onecopy::tls
