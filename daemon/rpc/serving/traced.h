// The distributed trace that a client's call carries in its metadata, where tracing libraries put
// it by themselves.
#pragma once

#include <grpcpp/server_context.h>

#include <tuple>

#include "onecopy/transfer.h"
#include "transport/core/ranges/range_groups.h"

namespace onecopy::rpc {

// The trace in the call's metadata "traceparent". Empty if it is missing or invalid: the standard
// asks servers to ignore an invalid one, as a proxy may have written it.
TraceContext TraceOf(const grpc::ServerContext& context);

// Gives a request that names no trace of its own the call's. A part has its series'.
template <typename Arguments>
void AddTrace(const TraceContext& /*trace*/, Arguments& /*arguments*/) {}
void AddTrace(const TraceContext& trace, std::tuple<TransferRequest, RangeGroups>& arguments);
void AddTrace(const TraceContext& trace, SeriesRequest& request);

}  // namespace onecopy::rpc
