#include "transport/core/base/duration.h"

#include "onecopy/reasons.h"
#include "tests/support/catch.h"

using onecopy::FormatDuration;
using onecopy::ParseDuration;
using std::chrono::milliseconds;

TEST_CASE("durations that people write are read exactly, and are printed the same") {
  const auto [text, count] = GENERATE(table<const char*, int64_t>({
      {"0s", 0},
      {"1ms", 1},
      {"200ms", 200},
      {"1500ms", 1500},
      {"30s", 30'000},
      {"5m", 300'000},
      {"2h", 7'200'000},
      {"9223372036854775807ms", INT64_MAX},
  }));
  INFO(text);
  const auto parsed = ParseDuration(text);
  REQUIRE_OK(parsed);
  CHECK(parsed->count() == count);
  CHECK(FormatDuration(*parsed) == text);
}

TEST_CASE("a duration is printed in its largest whole unit") {
  CHECK(FormatDuration(milliseconds(1000)) == "1s");
  CHECK(FormatDuration(milliseconds(90'000)) == "90s");
  CHECK(FormatDuration(milliseconds(60'000)) == "1m");
  CHECK(FormatDuration(milliseconds(60'001)) == "60001ms");
}

TEST_CASE("what is not a duration is refused with its text") {
  const auto* text = GENERATE("", "30", "s", "-1s", "+1s", " 1s", "1 s", "1.5s", "1S", "1min",
                              "1s1", "0x1s", "9223372036854775808ms", "9223372036854775807s");
  INFO(text);
  const auto parsed = ParseDuration(text);
  REQUIRE_FALSE(parsed.ok());
  CHECK(parsed.status().code() == onecopy::Code::kInvalidArgument);
  CHECK(parsed.status().reason() == onecopy::reasons::kBadArgument);
  CHECK(parsed.status().message().find(text) != std::string::npos);
}
