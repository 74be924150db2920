#include "proto/codec/utf8.h"

#include "tests/support/catch.h"

using onecopy::CutUtf8;
using onecopy::ToUtf8;

TEST_CASE("valid text stays as it is") {
  for (const std::string text : {"", "plain", "caf\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"}) {
    CHECK(ToUtf8(text) == text);
  }
  const std::string zero("a\0b", 3);
  CHECK(ToUtf8(zero) == zero);
}

TEST_CASE("bytes that are no UTF-8 become question marks") {
  CHECK(ToUtf8("\xff") == "?");
  CHECK(ToUtf8("a\x80z") == "a?z");
  CHECK(ToUtf8("cut \xe2\x82") == "cut ??");
  CHECK(ToUtf8("\xc3(") == "?(");
  CHECK(ToUtf8("\xc0\xaf") == "??");            // '/' in more bytes than it needs
  CHECK(ToUtf8("\xed\xa0\x80") == "???");       // half of a surrogate pair
  CHECK(ToUtf8("\xf4\x90\x80\x80") == "????");  // beyond the last character
  CHECK(ToUtf8("\xf8\x88\x80\x80\x80") == "?????");
}

TEST_CASE("text is cut between characters and says so") {
  CHECK(CutUtf8("12345", 5) == "12345");
  CHECK(CutUtf8("123456", 5) == "12...");
  CHECK(CutUtf8("1\xe2\x82\xac"
                "56",
                5) == "1...");
  CHECK(CutUtf8("123456", 2) == "12");
  CHECK(CutUtf8("\xe2\x82\xac", 2).empty());
  CHECK(CutUtf8("123", 0).empty());
}
