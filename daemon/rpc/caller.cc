#include "daemon/rpc/caller.h"

#include <grpc/grpc_security_constants.h>

#include "daemon/rpc/convert_peer.h"
#include "onecopy/reasons.h"
#include "proto/codec/protocol.h"

namespace onecopy::rpc {
namespace {

// As many certificates as are remembered; more peers are looked at more often.
constexpr size_t kMaxBelieved = 4096;

std::string Property(const grpc::AuthContext& connection, const char* name) {
  const auto values = connection.FindPropertyValues(name);
  if (values.empty()) return {};
  return {values.front().data(), values.front().size()};
}

}  // namespace

std::string MetadataOf(const grpc::ServerContext& context, const char* key) {
  const auto found = context.client_metadata().find(key);
  if (found == context.client_metadata().end()) return {};
  return {found->second.data(), found->second.size()};
}

Result<std::string> Callers::Of(const grpc::ServerContext& context) {
  std::string node = MetadataOf(context, kNodeMetadata);
  if (const Status status = CheckNodeName(node, Field() / kNodeMetadata); !status.ok()) {
    return Status(Code::kUnauthenticated, reasons::kAccessDenied,
                  "the caller does not say which node it is: " + status.message());
  }
  if (node == own_node_) {
    return Status(
        Code::kUnauthenticated, reasons::kAccessDenied,
        "the caller says that it is " + node + ", which is this node itself",
        "give every node a name of its own, and see that no peer's address is this node's");
  }
  if (trust_ != nullptr) ONECOPY_RETURN_IF_ERROR(Prove(context, node));
  return node;
}

Status Callers::Prove(const grpc::ServerContext& context, const std::string& node) {
  const auto connection = context.auth_context();
  const std::string certificate = Property(*connection, GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (!connection->IsPeerAuthenticated() || certificate.empty()) {
    return {Code::kUnauthenticated, reasons::kCertRejected,
            "the caller at " + context.peer() + " presents no certificate"};
  }
  const tls::Trust::Current current = trust_->Now();
  const os::Clock::time_point now = os::Clock::now();
  const std::string key = node + "\n" + certificate;
  if (const auto known = believed_.find(key); known != believed_.end()) {
    if (known->second.generation == current.generation &&
        now - known->second.since < tls::Trust::kBelieveFor) {
      return OkStatus();
    }
    believed_.erase(known);
  }
  ONECOPY_ASSIGN_OR_RETURN(tls::Chain chain, tls::ParseCertificates(certificate));
  if (const auto rest =
          tls::ParseCertificates(Property(*connection, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME));
      rest.ok()) {
    chain.insert(chain.end(), rest->begin(), rest->end());
  }
  if (const Status evaluated = current.identity->Verify(chain, node, tls::Side::kClient);
      !evaluated.ok()) {
    return evaluated.WithContext("caller at " + context.peer());
  }
  if (believed_.size() >= kMaxBelieved) believed_.clear();
  believed_[key] = {current.generation, now};
  return OkStatus();
}

}  // namespace onecopy::rpc
