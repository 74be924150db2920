#include "daemon/rpc/caller.h"

#include <grpc/grpc_security_constants.h>

#include <algorithm>
#include <string_view>

#include "daemon/rpc/convert_peer.h"
#include "proto/codec/protocol.h"
#include "transport/core/reasons.h"

namespace onecopy::rpc {
namespace {

// DNS names are the same in capitals.
bool IsSameName(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

bool IsCertifiedFor(const grpc::AuthContext& connection, const std::string& node) {
  for (const grpc::string_ref& name : connection.FindPropertyValues(GRPC_PEER_DNS_PROPERTY_NAME)) {
    if (IsSameName({name.data(), name.size()}, node)) return true;
  }
  for (const grpc::string_ref& uri : connection.FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)) {
    if (IsSameName({uri.data(), uri.size()}, kNodeUri + node)) return true;
  }
  return false;
}

}  // namespace

std::string MetadataOf(const grpc::ServerContext& context, const char* key) {
  const auto found = context.client_metadata().find(key);
  if (found == context.client_metadata().end()) return {};
  return {found->second.data(), found->second.size()};
}

Result<std::string> CallerOf(const grpc::ServerContext& context, const std::string& own_node,
                             bool tls) {
  std::string node = MetadataOf(context, kNodeMetadata);
  if (const Status status = CheckNodeName(node, Field() / kNodeMetadata); !status.ok()) {
    return Status(Code::kUnauthenticated, reasons::kAccessDenied,
                  "the caller does not say which node it is: " + status.message());
  }
  if (IsSameName(node, own_node)) {
    return Status(
        Code::kUnauthenticated, reasons::kAccessDenied,
        "the caller says that it is " + node + ", which is this node itself",
        "give every node a name of its own, and see that no peer's address is this node's");
  }
  if (!tls) return node;
  const auto connection = context.auth_context();
  if (!connection->IsPeerAuthenticated() || !IsCertifiedFor(*connection, node)) {
    return Status(
        Code::kUnauthenticated, reasons::kCertRejected,
        "the certificate of the caller at " + context.peer() + " is not for node " + node,
        "give that node a certificate with DNS:" + node + " among its subject alternative names");
  }
  return node;
}

}  // namespace onecopy::rpc
