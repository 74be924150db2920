#include "transport/core/base/exit_status.h"

namespace onecopy {

int ExitStatusOf(Code code) {
  switch (code) {
    case Code::kOk:
      return 0;
    case Code::kInvalidArgument:
    case Code::kOutOfRange:
    case Code::kAlreadyExists:
      return 2;
    case Code::kNotFound:
      return 3;
    case Code::kPermissionDenied:
    case Code::kUnauthenticated:
      return 4;
    case Code::kUnavailable:
      return 5;
    case Code::kDataLoss:
      return 6;
    case Code::kFailedPrecondition:
    case Code::kUnimplemented:
      return 7;
    case Code::kDeadlineExceeded:
      return 8;
    case Code::kResourceExhausted:
      return 9;
    case Code::kAborted:
      return 10;
    case Code::kCancelled:
      return 130;
    case Code::kInternal:
    case Code::kUnknown:
      return 1;
  }
  return 1;
}

}  // namespace onecopy
