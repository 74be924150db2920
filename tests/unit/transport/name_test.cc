#include "transport/core/base/name.h"

#include <string>

#include "tests/support/catch.h"

using onecopy::IsName;

TEST_CASE("names begin with a letter or digit and have at most 63 plain characters") {
  const std::string longest(63, 'x');
  CHECK(IsName("a"));
  CHECK(IsName("0"));
  CHECK(IsName("East-1.rack_7"));
  CHECK(IsName(longest));
  CHECK_FALSE(IsName(longest + "x"));
}

TEST_CASE("what could be taken for something else is no name") {
  const std::string text =
      GENERATE(std::string(), std::string(".a"), std::string("-a"), std::string("_a"),
               std::string("a b"), std::string("a/b"), std::string("a:b"), std::string("a@1"),
               std::string("a\n"), std::string("a\0b", 3), std::string("näme"), std::string(" a"));
  INFO(text);
  CHECK_FALSE(IsName(text));
}
