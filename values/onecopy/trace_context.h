// Which distributed trace a request belongs to, as W3C Trace Context has it.
#pragma once

#include "onecopy/language.h"  // first

#include <string>
#include <string_view>

#include "onecopy/result.h"

namespace onecopy {

// A `traceparent`, which nodes pass on and tell of as it is: onecopy makes no spans of its own. An
// immutable value; copies are equal.
class TraceContext {
 public:
  TraceContext() = default;  // none

  // "00-<32 hexadecimal digits>-<16 digits>-<2 digits>", in lower case, where neither the trace's
  // id nor the parent's is all zeros. Of a version above 00, what version 00 says is kept, as the
  // standard asks; version ff is refused. Empty text means none. INVALID_ARGUMENT (BAD_ARGUMENT)
  // otherwise.
  static Result<TraceContext> Parse(std::string_view traceparent);

  bool empty() const { return text_.empty(); }
  // As version 00 has it; empty without a trace.
  const std::string& str() const { return text_; }

  friend bool operator==(const TraceContext&, const TraceContext&) = default;

 private:
  std::string text_;
};

}  // namespace onecopy
