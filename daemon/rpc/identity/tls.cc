#include "daemon/rpc/identity/tls.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <utility>
#include <vector>

#include "onecopy/reasons.h"

namespace onecopy::rpc {
namespace {

std::string TextOf(grpc::string_ref text) { return {text.data(), text.size()}; }

// Asked by gRPC for its identity at each handshake: so new files count without another server.
class RotatingCredentials final : public grpc::ServerCredentials {
 public:
  explicit RotatingCredentials(std::shared_ptr<tls::Trust> trust) : trust_(std::move(trust)) {
    grpc_ssl_server_credentials_options* const options =
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY, Fetch, this);
    credentials_ = grpc_ssl_server_credentials_create_with_options(options);  // takes the options
  }
  ~RotatingCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    return static_cast<RotatingCredentials*>(self)->FetchInto(config);
  }

  grpc_ssl_certificate_config_reload_status FetchInto(grpc_ssl_server_certificate_config** config) {
    const tls::Trust::Current current = trust_->Now();
    const MutexLock lock(mutex_);
    if (current.generation == given_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair own{current.identity->key().c_str(),
                                         current.identity->certificate().c_str()};
    *config = grpc_ssl_server_certificate_config_create(current.identity->ca().c_str(), &own, 1);
    if (*config == nullptr) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_FAIL;
    given_ = current.generation;
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const std::shared_ptr<tls::Trust> trust_;
  grpc_server_credentials* credentials_ = nullptr;
  Mutex mutex_;
  uint64_t given_ ONECOPY_GUARDED_BY(mutex_) = 0;  // the generation that gRPC has
};

// Has each handshake of a channel judged by the one rule that there is for names.
class Verifier final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  explicit Verifier(std::shared_ptr<ServerProof> proof) : proof_(std::move(proof)) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)>, grpc::Status* outcome) override {
    const Status evaluated =
        proof_->Evaluate(TextOf(request->peer_cert()), TextOf(request->peer_cert_full_chain()));
    *outcome = evaluated.ok()
                   ? grpc::Status::OK
                   : grpc::Status(grpc::StatusCode::UNAUTHENTICATED, evaluated.message());
    return true;  // judged already
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}

 private:
  const std::shared_ptr<ServerProof> proof_;
};

std::shared_ptr<grpc::ChannelCredentials> ChannelFor(const tls::Identity& identity,
                                                     std::shared_ptr<ServerProof> proof) {
  namespace experimental = grpc::experimental;
  experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(std::make_shared<experimental::StaticDataCertificateProvider>(
      identity.ca(),
      std::vector<experimental::IdentityKeyCertPair>{{identity.key(), identity.certificate()}}));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_check_call_host(false);  // what the verifier has judged is not judged by address
  options.set_certificate_verifier(
      experimental::ExternalCertificateVerifier::Create<Verifier>(std::move(proof)));
  return experimental::TlsCredentials(options);
}

}  // namespace

Status ServerProof::Evaluate(const std::string& certificate, const std::string& between) {
  const tls::Trust::Current current = trust_->Now();
  Result<tls::Chain> chain = tls::ParseCertificates(certificate);
  if (chain.ok()) {
    if (auto rest = tls::ParseCertificates(between); rest.ok()) {
      chain->insert(chain->end(), rest->begin(), rest->end());
    }
  }
  Status evaluated = chain.ok()
                         ? current.identity->Verify(*chain, node_, tls::Side::kServer)
                         : Status(Code::kUnauthenticated, reasons::kCertRejected,
                                  "what node " + node_ + " presents " + chain.status().message());
  const MutexLock lock(mutex_);
  if (chain.ok()) presented_ = *std::move(chain);
  generation_ = current.generation;
  looked_ = os::Clock::now();
  return refusal_ = std::move(evaluated);
}

bool ServerProof::Holds() {
  const tls::Trust::Current current = trust_->Now();
  const MutexLock lock(mutex_);
  if (presented_.empty()) return true;  // the first handshake is still to come
  if (current.generation != generation_) return false;
  if (os::Clock::now() - looked_ < tls::Trust::kBelieveFor) return refusal_.ok();
  looked_ = os::Clock::now();
  refusal_ = current.identity->Verify(presented_, node_, tls::Side::kServer);
  return refusal_.ok();
}

Status ServerProof::refusal() const {
  const MutexLock lock(mutex_);
  return refusal_;
}

Credentials PlainText() {
  return {nullptr, grpc::InsecureServerCredentials(),
          [](const std::shared_ptr<ServerProof>&) { return grpc::InsecureChannelCredentials(); },
          false};
}

Credentials MutualTls(std::shared_ptr<tls::Trust> trust) {
  Credentials credentials;
  credentials.tls = true;
  credentials.server = std::make_shared<RotatingCredentials>(trust);
  credentials.channel = [trust](std::shared_ptr<ServerProof> proof) {
    return ChannelFor(*trust->Now().identity, std::move(proof));
  };
  credentials.trust = std::move(trust);
  return credentials;
}

}  // namespace onecopy::rpc
