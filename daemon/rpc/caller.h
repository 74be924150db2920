// Which node a call on PeerService comes from.
#pragma once

#include <grpcpp/server_context.h>

#include <string>

#include "transport/core/result.h"

namespace onecopy::rpc {

// URI of a node in a certificate, beside its DNS name: "onecopy://east".
inline constexpr char kNodeUri[] = "onecopy://";

// The node that the call's metadata names, which cannot be `own_node`: what this node asks of
// itself does not come over a connection. With `tls` the caller's certificate must be for that
// name, as a DNS name or URI among its subject alternative names; without, its word is taken (see
// AdmitPeers for what a local user's is worth). UNAUTHENTICATED otherwise.
Result<std::string> CallerOf(const grpc::ServerContext& context, const std::string& own_node,
                             bool tls);

// The value of a call's metadata; empty where there is none.
std::string MetadataOf(const grpc::ServerContext& context, const char* key);

}  // namespace onecopy::rpc
