#include "daemon/rpc/identity/proofs.h"

#include <grpc/grpc_security_constants.h>

#include "onecopy/reasons.h"

namespace onecopy::rpc {
namespace {

// As many certificates as are remembered; more callers are looked at more often.
constexpr size_t kMaxBelieved = 4096;

std::string Property(const grpc::AuthContext& connection, const char* name) {
  const auto values = connection.FindPropertyValues(name);
  if (values.empty()) return {};
  return {values.front().data(), values.front().size()};
}

// Empty where there is none.
std::string CertificateOf(const grpc::ServerContext& context) {
  const auto connection = context.auth_context();
  if (!connection->IsPeerAuthenticated()) return {};
  return Property(*connection, GRPC_X509_PEM_CERT_PROPERTY_NAME);
}

Result<tls::Chain> ParseChain(const grpc::ServerContext& context, const std::string& certificate) {
  if (certificate.empty()) {
    return Status(Code::kUnauthenticated, reasons::kCertRejected,
                  "the caller at " + context.peer() + " presents no certificate");
  }
  ONECOPY_ASSIGN_OR_RETURN(tls::Chain chain, tls::ParseCertificates(certificate));
  if (const auto rest = tls::ParseCertificates(
          Property(*context.auth_context(), GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME));
      rest.ok()) {
    chain.insert(chain.end(), rest->begin(), rest->end());
  }
  return chain;
}

}  // namespace

Result<tls::Chain> PresentedBy(const grpc::ServerContext& context) {
  return ParseChain(context, CertificateOf(context));
}

Result<std::string> Proofs::Of(const grpc::ServerContext& context, const std::string& question,
                               const Judge& judge) {
  const std::string certificate = CertificateOf(context);
  const tls::Trust::Current current = trust_->Now();
  const os::Clock::time_point now = os::Clock::now();
  const std::string key = question + "\n" + certificate;
  if (const auto known = believed_.find(key); known != believed_.end()) {
    if (known->second.generation == current.generation &&
        now - known->second.since < tls::Trust::kBelieveFor) {
      return known->second.what;
    }
    believed_.erase(known);
  }
  ONECOPY_ASSIGN_OR_RETURN(const tls::Chain chain, ParseChain(context, certificate));
  Result<std::string> what = judge(*current.identity, chain);
  if (!what.ok()) return what.status().WithContext("caller at " + context.peer());
  if (believed_.size() >= kMaxBelieved) believed_.clear();
  believed_[key] = {*what, current.generation, now};
  return what;
}

}  // namespace onecopy::rpc
