// Between the public values and onecopy.v1's messages. Any thread. What comes from the wire is
// never refused: unknown enum values become kUnknown.
#pragma once

#include "onecopy/buffer.h"
#include "onecopy/node.h"
#include "onecopy/result.h"
#include "onecopy/transfer.h"
#include "onecopy/v1/buffer.pb.h"
#include "onecopy/v1/node.pb.h"
#include "onecopy/v1/transfer.pb.h"

namespace onecopy::client {

// INVALID_ARGUMENT (BAD_NAME) for what can be the name of nothing, and might not be valid on the
// wire: other characters than printable ASCII, or over 256 of them. Finer rules are the daemon's.
Status CheckText(std::string_view what, const std::string& text);

v1::Endpoint ToWire(const Endpoint& endpoint);
v1::Policy ToWire(const Policy& policy);
google::protobuf::Duration ToWire(std::chrono::milliseconds duration);
// With a request id of the library's where the caller gave none.
Result<v1::CreateTransferRequest> ToWire(const TransferRequest& request, bool validate_only);
Result<v1::OpenSeriesRequest> ToWire(const SeriesRequest& request);

Endpoint FromWire(const v1::Endpoint& wire);
Plan FromWire(const v1::Plan& wire);
Receipt FromWire(const v1::Receipt& wire);
TransferInfo FromWire(const v1::Transfer& wire);
BufferInfo FromWire(const v1::Buffer& wire);
GrantInfo FromWire(const v1::Grant& wire);
NodeInfo FromWire(const v1::Node& wire);
ProbeInfo FromWire(const v1::Probe& wire);

}  // namespace onecopy::client
