#include "onecopy/size.h"

#include <limits>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"

using onecopy::FormatBytes;
using onecopy::FormatRate;
using onecopy::ParseBytes;

TEST_CASE("sizes that people write are read exactly") {
  const auto [text, bytes] = GENERATE(table<const char*, uint64_t>({
      {"0", 0},
      {"4096", 4096},
      {"1B", 1},
      {"64KiB", 65536},
      {"64 KiB", 65536},
      {"1GiB", 1073741824},
      {"1GB", 1000000000},
      {"1.5GiB", 1610612736},
      {"0.5KiB", 512},
      {"2.25MB", 2250000},
      {"18446744073709551615", std::numeric_limits<uint64_t>::max()},
      {"15EiB", 17293822569102704640ULL},
  }));
  INFO(text);
  auto parsed = ParseBytes(text);
  REQUIRE_OK(parsed);
  CHECK(*parsed == bytes);
}

TEST_CASE("what is not a size is refused with its text") {
  const auto* text =
      GENERATE("", "-1", "+1", "GiB", "1giB", "1gib", "1XB", "1.5", "0.1KiB", "1.", "1..5KiB",
               "1.5.5KiB", "18446744073709551616", "16EiB", "15.9999999EiB1", "1e9", "0x10", "1 2",
               "99999999999999999999999", "1.0000000001EiB", "18446744073709551615.5KiB");
  INFO(text);
  const auto parsed = ParseBytes(text);
  REQUIRE_FALSE(parsed.ok());
  CHECK(parsed.status().code() == onecopy::Code::kInvalidArgument);
  CHECK(parsed.status().reason() == onecopy::reasons::kBadSize);
  CHECK(parsed.status().message().find(text) != std::string::npos);
}

TEST_CASE("sizes and rates are printed for people") {
  CHECK(FormatBytes(0) == "0 B");
  CHECK(FormatBytes(1023) == "1023 B");
  CHECK(FormatBytes(1536) == "1.5 KiB");
  CHECK(FormatBytes(uint64_t{1} << 30) == "1 GiB");
  CHECK(FormatBytes(std::numeric_limits<uint64_t>::max()) == "16 EiB");
  CHECK(FormatRate(26.188e9) == "26.19 GB/s");
  CHECK(FormatRate(0) == "0 B/s");
}
