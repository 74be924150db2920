#include "client/lib/calls/status_decode.h"

#include <cerrno>
#include <cstring>

#include "onecopy/reasons.h"
#include "proto/codec/status_codec.h"
#include "transport/os/base/error.h"

namespace onecopy::client {
namespace {

std::string_view FallbackReason(Code code) {
  switch (code) {
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

Status DecodeStatus(const grpc::Status& wire, const std::string& peer) {
  if (wire.ok()) return OkStatus();
  const Status own =
      onecopy::DecodeStatus(wire.error_code(), wire.error_message(), wire.error_details());
  if (!own.reason().empty()) return own;
  Code code = own.code();
  // Not cancelled by us, as those who cancel do not ask: the server dropped the call as it ended.
  if (code == Code::kCancelled) code = Code::kUnavailable;
  const std::string_view reason = FallbackReason(code);
  switch (code) {
    case Code::kUnavailable:
      // gRPC could not make a socket, now or a moment ago, and tells so in words alone.
      for (const int error : {EMFILE, ENFILE}) {
        if (wire.error_message().find(::strerror(error)) == std::string::npos) continue;
        return os::ErrnoStatus(error, "connecting to " + peer);
      }
      for (const char* silence : {"keepalive watchdog timeout", "ping timeout"}) {
        if (wire.error_message().find(silence) == std::string::npos) continue;
        return {code, reason, peer + " has stopped answering, and may have begun with the call",
                "check whether it still runs; its log says what keeps it busy"};
      }
      return {code, reason, peer + " closed the connection: " + wire.error_message(),
              "check whether it still runs; its log says why it ended"};
    case Code::kDeadlineExceeded:
      return {code, reason, peer + " did not answer in time: " + wire.error_message(),
              "check its log for what keeps it busy"};
    case Code::kUnimplemented:
      return {code, reason, peer + " does not know this call: " + wire.error_message(),
              "install the same version of onecopyd and of its clients"};
    default:
      return {code, reason, peer + ": " + wire.error_message()};
  }
}

Status StoppedTelling(const std::string& peer, const TransferId& id) {
  return {Code::kUnavailable, reasons::kDaemonUnreachable,
          peer + " stopped telling about transfer " + id.str() + " before its end",
          "look at it with `onecopy transfer show " + id.str() + "`"};
}

Status Unanswered(Status status, const TransferId& id) {
  if (status.code() != Code::kDeadlineExceeded) return status;
  return {
      status.code(), status.reason(),
      "transfer " + id.str() + " may be under way still, and use its memory: " + status.message(),
      "see what became of it with `onecopy transfer show " + id.str() +
          "` once the daemon answers"};
}

}  // namespace onecopy::client
