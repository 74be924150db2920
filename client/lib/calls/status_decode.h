// How a call on api.sock ended.
#pragma once

#include <grpcpp/support/status.h>

#include <string>

#include "onecopy/ids.h"
#include "onecopy/status.h"

namespace onecopy::client {

// Any thread. The daemon's own error (see proto/codec/status_codec.h) or, where gRPC made it, one
// with the reason that fits its code and with `peer`, the called side, in its message. A
// cancellation that gRPC made counts as UNAVAILABLE: a caller that has cancelled a call itself does
// not decode its end.
Status DecodeStatus(const grpc::Status& wire, const std::string& peer);

// The updates of a transfer ended before the transfer did.
Status StoppedTelling(const std::string& peer, const TransferId& id);

// The same for a question about that transfer. If no answer came, it may still be under way.
Status Unanswered(Status status, const TransferId& id);

}  // namespace onecopy::client
