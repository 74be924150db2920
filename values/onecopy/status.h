// The outcome of an operation. No exception crosses a folder; native error codes (errno, CUresult)
// become message text inside the folder that saw them.
#pragma once

#include "onecopy/language.h"  // first

#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace onecopy {

// One reason against one path. All four fields are for people and programs alike: `path` and
// `reason` are stable names, `detail` says what was seen on which device, `remedy` what the reader
// can do about it.
struct Refusal {
  std::string path;
  std::string reason;
  std::string detail;
  std::string remedy;

  friend bool operator==(const Refusal&, const Refusal&) = default;
};

// Numbers equal those of gRPC, so that they survive the wire unchanged.
enum class Code : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

// "NOT_FOUND" and the like.
std::string_view CodeName(Code code);

// The code of that number; kUnknown for a number that no code has.
Code CodeFromNumber(int number);

// A failure says what failed, on what and why (`message`), under a stable name (`reason`, see
// reasons.h), and what to do about it (`remedy`, may be empty). A failure of the planner carries
// every refusal. Cheap to copy.
class [[nodiscard]] Status {
 public:
  Status() = default;  // success
  Status(Code code, std::string_view reason, std::string message, std::string remedy = {});

  bool ok() const { return rep_ == nullptr; }
  explicit operator bool() const { return ok(); }
  Code code() const { return ok() ? Code::kOk : rep_->code; }
  const std::string& reason() const { return ok() ? Empty().reason : rep_->reason; }
  const std::string& message() const { return ok() ? Empty().message : rep_->message; }
  const std::string& remedy() const { return ok() ? Empty().remedy : rep_->remedy; }
  const std::vector<Refusal>& refusals() const { return ok() ? Empty().refusals : rep_->refusals; }

  // The same failure with the refusals attached, or with `context: ` put before its message.
  Status WithRefusals(std::vector<Refusal> refusals) const;
  Status WithContext(std::string_view context) const;

  // One line for people: "BUFFER_NOT_FOUND: … (do …)"; "OK" for success.
  std::string ToString() const;

 private:
  struct Rep {
    Code code = Code::kOk;
    std::string reason;
    std::string message;
    std::string remedy;
    std::vector<Refusal> refusals;
  };
  static const Rep& Empty();

  std::shared_ptr<const Rep> rep_;
};

inline Status OkStatus() { return {}; }

// As ToString.
std::ostream& operator<<(std::ostream& out, const Status& status);

// What asking a failed Result for its value comes to: says the failure on standard error and ends
// the process.
[[noreturn]] void EndForLackOfValue(const Status& failure);

}  // namespace onecopy
