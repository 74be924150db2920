#include "daemon/rpc/serving/traced.h"

#include "daemon/rpc/identity/caller.h"

namespace onecopy::rpc {

TraceContext TraceOf(const grpc::ServerContext& context) {
  const Result<TraceContext> trace = TraceContext::Parse(MetadataOf(context, "traceparent"));
  return trace.ok() ? *trace : TraceContext();
}

void AddTrace(const TraceContext& trace, std::tuple<TransferRequest, RangeGroups>& arguments) {
  TransferRequest& request = std::get<TransferRequest>(arguments);
  if (request.trace.empty() && request.part_of.empty()) request.trace = trace;
}

void AddTrace(const TraceContext& trace, SeriesRequest& request) {
  if (request.trace.empty()) request.trace = trace;
}

}  // namespace onecopy::rpc
