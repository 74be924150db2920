#include "onecopy/trace_context.h"

#include "onecopy/reasons.h"
#include "tests/support/catch.h"

namespace trace_context_test {
namespace {

using onecopy::TraceContext;

const std::string kTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

}  // namespace

TEST_CASE("a traceparent is kept as it is") {
  for (const std::string& text :
       {kTrace, std::string("00-00000000000000000000000000000001-0000000000000001-ff")}) {
    const auto trace = TraceContext::Parse(text);
    REQUIRE_OK(trace);
    CHECK(trace->str() == text);
    CHECK_FALSE(trace->empty());
  }
  CHECK(TraceContext().empty());
  CHECK(*TraceContext::Parse("") == TraceContext());
}

TEST_CASE("of a later version, a traceparent is kept as far as it is known") {
  for (const char* tail : {"", "-", "-whatever is added there"}) {
    const auto trace = TraceContext::Parse("cc" + kTrace.substr(2) + tail);
    REQUIRE_OK(trace);
    CHECK(trace->str() == kTrace);
  }
}

TEST_CASE("what is no traceparent is refused") {
  const std::string zeros(32, '0');
  for (const std::string& text :
       {std::string("nonsense"), std::string("00"), std::string("-"), kTrace + "-", kTrace + "0",
        kTrace.substr(0, 54), " " + kTrace, "ff" + kTrace.substr(2), "cc" + kTrace.substr(2) + "0",
        "00-" + zeros + "-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-" + zeros.substr(16) + "-01",
        std::string("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01"),
        std::string("00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01"),
        std::string("00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        kTrace.substr(0, 10) + '\0' + kTrace.substr(11), kTrace.substr(0, 54) + '\n'}) {
    INFO(text);
    const auto trace = TraceContext::Parse(text);
    REQUIRE_FALSE(trace.ok());
    CHECK(trace.status().code() == onecopy::Code::kInvalidArgument);
    CHECK(trace.status().reason() == onecopy::reasons::kBadArgument);
  }
}

}  // namespace trace_context_test
