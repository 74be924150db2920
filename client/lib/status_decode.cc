#include "client/lib/status_decode.h"

#include <google/rpc/error_details.pb.h>

#include <utility>
#include <vector>

#include "onecopy/v1/transfer.pb.h"
#include "transport/core/reasons.h"

namespace onecopy::client {
namespace {

struct Details {
  std::string reason;
  std::string remedy;
  std::vector<Refusal> refusals;
};

Details ReadDetails(const google::rpc::Status& wire) {
  Details details;
  for (const google::protobuf::Any& any : wire.details()) {
    if (any.Is<google::rpc::ErrorInfo>()) {
      google::rpc::ErrorInfo info;
      if (!any.UnpackTo(&info) || info.domain() != "onecopy") continue;
      details.reason = info.reason();
      if (const auto remedy = info.metadata().find("remedy"); remedy != info.metadata().end()) {
        details.remedy = remedy->second;
      }
    } else if (any.Is<v1::RefusalList>()) {
      v1::RefusalList list;
      if (!any.UnpackTo(&list)) continue;
      for (const v1::Refusal& refusal : list.refused()) {
        details.refusals.push_back(
            {refusal.path(), refusal.reason(), refusal.detail(), refusal.remedy()});
      }
    }
  }
  return details;
}

std::string_view FallbackReason(Code code) {
  switch (code) {
    case Code::kCancelled:
      return reasons::kCancelled;
    case Code::kInvalidArgument:
    case Code::kOutOfRange:
      return reasons::kBadArgument;
    case Code::kDeadlineExceeded:
      return reasons::kDeadline;
    case Code::kPermissionDenied:
      return reasons::kAccessDenied;
    case Code::kUnauthenticated:
      return reasons::kNoSession;
    case Code::kUnavailable:
      return reasons::kDaemonUnreachable;
    case Code::kUnimplemented:
      return reasons::kNotServed;
    default:
      return reasons::kInternal;
  }
}

}  // namespace

Status DecodeStatus(const google::rpc::Status& wire) {
  const Code code = CodeFromNumber(wire.code());
  if (code == Code::kOk) return OkStatus();
  Details details = ReadDetails(wire);
  const std::string_view reason =
      details.reason.empty() ? FallbackReason(code) : std::string_view(details.reason);
  const Status status(code, reason, wire.message(), std::move(details.remedy));
  return status.WithRefusals(std::move(details.refusals));
}

Status DecodeStatus(const grpc::Status& wire, const std::string& peer) {
  if (wire.ok()) return OkStatus();
  google::rpc::Status full;
  if (full.ParseFromString(wire.error_details()) && full.code() == wire.error_code()) {
    return DecodeStatus(full);
  }
  Code code = CodeFromNumber(wire.error_code());
  // Not cancelled by us, as those who cancel do not ask: the server dropped the call as it ended.
  if (code == Code::kCancelled) code = Code::kUnavailable;
  const std::string_view reason = FallbackReason(code);
  switch (code) {
    case Code::kUnavailable:
      return {code, reason, peer + " has gone: " + wire.error_message(),
              "see whether it still runs, and in its log why it ended"};
    case Code::kDeadlineExceeded:
      return {code, reason, peer + " did not answer in time: " + wire.error_message(),
              "see in its log what keeps it busy"};
    case Code::kUnimplemented:
      return {code, reason, peer + " does not know this call: " + wire.error_message(),
              "install the same version of onecopyd and of its clients"};
    default:
      return {code, reason, peer + ": " + wire.error_message()};
  }
}

}  // namespace onecopy::client
