#include "daemon/rpc/traced.h"

#include <iterator>
#include <string_view>

namespace onecopy::rpc {

TraceContext TraceOf(const grpc::ServerContext& context) {
  const auto [first, end] = context.client_metadata().equal_range("traceparent");
  if (first == end || std::next(first) != end) return {};
  const Result<TraceContext> trace =
      TraceContext::Parse(std::string_view(first->second.data(), first->second.size()));
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
