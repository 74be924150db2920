#include "onecopy/trace_context.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "onecopy/reasons.h"

namespace onecopy {
namespace {

// version, trace id, parent id, flags
constexpr std::array<size_t, 4> kDigits = {2, 32, 16, 2};
constexpr size_t kLength = 55;

bool IsDigit(char each) { return (each >= '0' && each <= '9') || (each >= 'a' && each <= 'f'); }

bool IsZero(std::string_view digits) {
  return std::all_of(digits.begin(), digits.end(), [](char each) { return each == '0'; });
}

bool IsWellFormed(std::string_view text) {
  size_t at = 0;
  for (size_t field = 0; field < kDigits.size(); ++field) {
    if (field > 0 && text[at++] != '-') return false;
    const std::string_view digits = text.substr(at, kDigits[field]);
    if (!std::all_of(digits.begin(), digits.end(), IsDigit)) return false;
    if ((field == 1 || field == 2) && IsZero(digits)) return false;
    at += kDigits[field];
  }
  return true;
}

}  // namespace

Result<TraceContext> TraceContext::Parse(std::string_view traceparent) {
  if (traceparent.empty()) return TraceContext();
  const std::string_view known = traceparent.substr(0, kLength);
  const std::string_view version = known.substr(0, 2);
  const bool later = version != "00" && traceparent.size() > kLength && traceparent[kLength] == '-';
  if (known.size() != kLength || version == "ff" || !IsWellFormed(known) ||
      (traceparent.size() != kLength && !later)) {
    return Status(
        Code::kInvalidArgument, reasons::kBadArgument, "the trace is not a W3C traceparent",
        "pass 00-TRACE-PARENT-FLAGS: 32, 16 and 2 hexadecimal digits in lower case, as in "
        "the header that your tracing library writes");
  }
  TraceContext context;
  context.text_ = "00" + std::string(known.substr(2));
  return context;
}

}  // namespace onecopy
