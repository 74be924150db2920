#include "daemon/rpc/identity/caller.h"

#include "daemon/rpc/convert/peer.h"
#include "onecopy/reasons.h"
#include "proto/codec/protocol.h"

namespace onecopy::rpc {
Status NoSession() {
  return {Code::kUnauthenticated, reasons::kNoSession,
          std::string("the call has no metadata \"") + kSessionMetadata + "\"",
          "open a session first: OpenSession or attach.sock returns a token, which each call must "
          "carry"};
}

std::string MetadataOf(const grpc::ServerContext& context, const char* key) {
  const auto found = context.client_metadata().find(key);
  if (found == context.client_metadata().end()) return {};
  return {found->second.data(), found->second.size()};
}

Result<std::string> Callers::Of(const grpc::ServerContext& context) {
  std::string node = MetadataOf(context, kNodeMetadata);
  if (const Status status = CheckNodeName(node, Field() / kNodeMetadata); !status.ok()) {
    return Status(Code::kUnauthenticated, reasons::kAccessDenied,
                  "the caller does not name its node: " + status.message());
  }
  if (node == own_node_) {
    return Status(Code::kUnauthenticated, reasons::kAccessDenied,
                  "the caller says that it is " + node + ", which is this node itself",
                  "give every node its own name, and check that no peer's address is this node's");
  }
  if (!proofs_) return node;
  return proofs_->Of(
      context, node,
      [&node](const tls::Identity& identity, const tls::Chain& chain) -> Result<std::string> {
        ONECOPY_RETURN_IF_ERROR(identity.Verify(chain, node, tls::Side::kClient));
        return node;
      });
}

}  // namespace onecopy::rpc
