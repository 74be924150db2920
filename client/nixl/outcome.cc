#include "client/nixl/outcome.h"

#include <cstdio>
#include <string>

#include "onecopy/reasons.h"

namespace onecopy::nixl {

abi::Outcome OutcomeFor(const Status& status) {
  if (status.reason() == reasons::kOwnerDied) return abi::Outcome::kRemoteDisconnected;
  if (status.reason() == reasons::kBufferLost || status.reason() == reasons::kBufferNotFound) {
    return abi::Outcome::kBackend;
  }
  switch (status.code()) {
    case Code::kOk:
      return abi::Outcome::kSuccess;
    case Code::kCancelled:
      return abi::Outcome::kCancelled;
    case Code::kInvalidArgument:
    case Code::kOutOfRange:
    case Code::kAlreadyExists:
      return abi::Outcome::kBadArgument;
    case Code::kNotFound:
      return abi::Outcome::kNotFound;
    case Code::kPermissionDenied:
    case Code::kUnauthenticated:
      return abi::Outcome::kNotAllowed;
    case Code::kUnimplemented:
      return abi::Outcome::kNotSupported;
    default:
      return abi::Outcome::kBackend;
  }
}

abi::Outcome Say(std::string_view what, const Status& status) {
  if (!status.ok() && status.code() != Code::kCancelled) {
    const std::string line =
        "onecopy's plug-in for NIXL: " + std::string(what) + ": " + status.ToString() + "\n";
    std::fwrite(line.data(), 1, line.size(), stderr);
  }
  return OutcomeFor(status);
}

}  // namespace onecopy::nixl
