// Our errors as gRPC's, with their details, and back.
#pragma once

#include <grpcpp/support/status.h>

#include <string>

#include "onecopy/status.h"

namespace onecopy::rpc {

grpc::Status ToGrpc(const Status& status);

// An error that gRPC made itself, or that a foreign server sent, has no reason.
Status FromGrpc(const grpc::Status& status);

// Whether a failure to connect, as gRPC words it, is about who the other end is. gRPC reports a
// failed TLS handshake like any other failure; only its text tells them apart, and calls what the
// network did to a connection a "handshaker" failure, too.
bool IsAboutCertificates(const std::string& message);

}  // namespace onecopy::rpc
