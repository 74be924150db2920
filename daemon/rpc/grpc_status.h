// Our errors as gRPC's, with their details, and back.
#pragma once

#include <grpcpp/support/status.h>

#include "onecopy/status.h"

namespace onecopy::rpc {

grpc::Status ToGrpc(const Status& status);

// An error that gRPC made itself, or that a foreign server sent, has no reason.
Status FromGrpc(const grpc::Status& status);

}  // namespace onecopy::rpc
