// Errors as they come over the wire.
#pragma once

#include <google/rpc/status.pb.h>
#include <grpcpp/support/status.h>

#include "transport/core/status.h"

namespace onecopy::client {

// Any thread. Reads google.rpc.ErrorInfo of domain "onecopy" (reason, and remedy in its metadata)
// and onecopy.v1.RefusalList; details of other kinds, or that cannot be parsed, are passed over. An
// error without a reason of ours gets the one that fits its code. A code of 0 gives success.
Status DecodeStatus(const google::rpc::Status& wire);

// Likewise for the outcome of a call: the details travel as a serialized google.rpc.Status. `peer`
// says who was called, for the message of an error that gRPC itself made. A cancellation without
// details counts as UNAVAILABLE: a caller that has cancelled a call itself does not decode its end.
Status DecodeStatus(const grpc::Status& wire, const std::string& peer);

}  // namespace onecopy::client
