#include "onecopy/status.h"

#include <cstdlib>
#include <iostream>
#include <utility>

namespace onecopy {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kOk:
      return "OK";
    case Code::kCancelled:
      return "CANCELLED";
    case Code::kUnknown:
      return "UNKNOWN";
    case Code::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case Code::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case Code::kNotFound:
      return "NOT_FOUND";
    case Code::kAlreadyExists:
      return "ALREADY_EXISTS";
    case Code::kPermissionDenied:
      return "PERMISSION_DENIED";
    case Code::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case Code::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case Code::kAborted:
      return "ABORTED";
    case Code::kOutOfRange:
      return "OUT_OF_RANGE";
    case Code::kUnimplemented:
      return "UNIMPLEMENTED";
    case Code::kInternal:
      return "INTERNAL";
    case Code::kUnavailable:
      return "UNAVAILABLE";
    case Code::kDataLoss:
      return "DATA_LOSS";
    case Code::kUnauthenticated:
      return "UNAUTHENTICATED";
  }
  return "UNKNOWN";
}

Code CodeFromNumber(int number) {
  constexpr int kLast = static_cast<int>(Code::kUnauthenticated);
  return number >= 0 && number <= kLast ? static_cast<Code>(number) : Code::kUnknown;
}

Status::Status(Code code, std::string_view reason, std::string message, std::string remedy) {
  if (code == Code::kOk) return;
  rep_ = std::make_shared<const Rep>(
      Rep{code, std::string(reason), std::move(message), std::move(remedy), {}});
}

const Status::Rep& Status::Empty() {
  static const Rep empty;
  return empty;
}

Status Status::WithRefusals(std::vector<Refusal> refusals) const {
  if (ok()) return *this;
  Status copy;
  copy.rep_ = std::make_shared<const Rep>(
      Rep{rep_->code, rep_->reason, rep_->message, rep_->remedy, std::move(refusals)});
  return copy;
}

Status Status::WithContext(std::string_view context) const {
  if (ok()) return *this;
  Status copy;
  copy.rep_ = std::make_shared<const Rep>(Rep{rep_->code, rep_->reason,
                                              std::string(context) + ": " + rep_->message,
                                              rep_->remedy, rep_->refusals});
  return copy;
}

std::string Status::ToString() const {
  if (ok()) return "OK";
  std::string text = rep_->reason.empty() ? std::string(CodeName(rep_->code)) : rep_->reason;
  text += ": " + rep_->message;
  if (!rep_->remedy.empty()) text += " (" + rep_->remedy + ")";
  return text;
}

std::ostream& operator<<(std::ostream& out, const Status& status) {
  return out << status.ToString();
}

void EndForLackOfValue(const Status& failure) {
  std::cerr << "onecopy: a Result was used as a value, but it is this error: " << failure
            << std::endl;
  std::abort();
}

}  // namespace onecopy
