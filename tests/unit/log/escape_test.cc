#include "daemon/log/escape.h"

#include "tests/support/catch.h"

using onecopy::log::Escape;

namespace {

constexpr size_t kPlenty = 1000;

}  // namespace

TEST_CASE("plain text of any script stays as it is") {
  const auto* text = GENERATE("", "plain", "Zürich", "東京", "🚀", "\\ \" '", "~");
  CHECK(Escape(text, kPlenty) == text);
}

TEST_CASE("what would steer a terminal, hide or reorder text is escaped") {
  const auto [text, escaped] = GENERATE(table<std::string, std::string>({
      {"a\nb\r\tc", "a\\nb\\r\\tc"},
      {std::string("\0", 1), "\\x00"},
      {"\x1b[2J", "\\x1b[2J"},
      {"\x7f", "\\x7f"},
      {"\xc2\x9b"
       "31m",
       "\\u009b31m"},  // CSI, in one character
      {"\xe2\x80\xae"
       "gpj.exe",
       "\\u202egpj.exe"},  // right-to-left override
      {"a\xe2\x80\x8b"
       "b",
       "a\\u200bb"},  // zero-width space
      {"\xef\xbb\xbf", "\\ufeff"},
      {"\xf3\xa0\x80\x81", "\\U000e0001"},  // a tag character
  }));
  CHECK(Escape(text, kPlenty) == escaped);
}

TEST_CASE("what is not UTF-8 is escaped byte by byte") {
  const auto [text, escaped] = GENERATE(table<std::string, std::string>({
      {"\xff", "\\xff"},
      {"\x80", "\\x80"},
      {"\xc3", "\\xc3"},  // cut off
      {"\xc3(", "\\xc3("},
      {"\xe6\x9d", "\\xe6\\x9d"},
      {"\xc0\x8a", "\\xc0\\x8a"},           // a line feed in two bytes
      {"\xe0\x80\x8a", "\\xe0\\x80\\x8a"},  // and in three
      {"\xf0\x80\x80\x8a", "\\xf0\\x80\\x80\\x8a"},
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},           // a surrogate
      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},  // above the last character
      {"\xf8\x88\x80\x80\x80", "\\xf8\\x88\\x80\\x80\\x80"},
      {"ok\xff"
       "ok",
       "ok\\xffok"},
  }));
  CHECK(Escape(text, kPlenty) == escaped);
}

TEST_CASE("quotes and backslashes are escaped where they would end a text") {
  CHECK(Escape("a\"b\\c", kPlenty, true) == "a\\\"b\\\\c");
  CHECK(Escape("\n", kPlenty, true) == "\\n");
}

TEST_CASE("a long text is cut between two characters") {
  CHECK(Escape("abcd", 4) == "abcd");
  CHECK(Escape("abcde", 4) == "abcd…[5 bytes]");
  CHECK(Escape("abcü", 4) == "abc…[5 bytes]");
  CHECK(Escape("\xff\xff\xff", 2) == "\\xff\\xff…[3 bytes]");
}
