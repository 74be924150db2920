#include "daemon/config/value_text.h"

#include "tests/support/catch.h"

using onecopy::SettingSpec;
using onecopy::SettingType;
using onecopy::SettingValue;
using onecopy::config::BoundsText;
using onecopy::config::ValueText;

TEST_CASE("values are written as TOML has them") {
  CHECK(ValueText(SettingType::kBool, true) == "true");
  CHECK(ValueText(SettingType::kInteger, int64_t{-5}) == "-5");
  CHECK(ValueText(SettingType::kText, std::string("a\"b\\c\n\x7f")) ==
        "\"a\\\"b\\\\c\\u000A\\u007F\"");
  CHECK(ValueText(SettingType::kTextList, std::vector<std::string>{}) == "[]");
  CHECK(ValueText(SettingType::kTextList, std::vector<std::string>{"a", "b"}) == "[\"a\", \"b\"]");
  CHECK(ValueText(SettingType::kDuration, int64_t{90'000}) == "\"90s\"");
}

TEST_CASE("sizes are written without losing a byte") {
  const auto [bytes, text] = GENERATE(table<int64_t, const char*>({
      {0, "\"0B\""},
      {1023, "\"1023B\""},
      {1024, "\"1KiB\""},
      {1025, "\"1025B\""},
      {1536, "\"1536B\""},
      {64 << 20, "\"64MiB\""},
      {int64_t{1} << 60, "\"1048576TiB\""},
      {INT64_MAX, "\"9223372036854775807B\""},
  }));
  CHECK(ValueText(SettingType::kBytes, bytes) == text);
}

TEST_CASE("bounds are written in the unit of their key") {
  SettingSpec spec;
  spec.type = SettingType::kBytes;
  spec.least = 4096;
  spec.most = 1 << 20;
  CHECK(BoundsText(spec) == "between 4KiB and 1MiB");
  spec.most = INT64_MAX;
  CHECK(BoundsText(spec) == "at least 4KiB");
  spec.type = SettingType::kDuration;
  CHECK(BoundsText(spec) == "at least 4096ms");
  spec.type = SettingType::kText;
  CHECK(BoundsText(spec).empty());
}
