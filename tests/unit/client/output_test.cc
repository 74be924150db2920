#include <sstream>

#include "client/cli/output/escape.h"
#include "client/cli/output/table.h"
#include "client/cli/output/time.h"
#include "client/cli/time_option.h"
#include "tests/support/catch.h"
#include "transport/core/base/exit_status.h"

using namespace onecopy::cli;
using onecopy::Code;

TEST_CASE("text that could steer a terminal is shown, not obeyed") {
  CHECK(Printable("plain") == "plain");
  CHECK(Printable("caf\xc3\xa9 \xe2\x86\x92 \xf0\x9f\x98\x80") ==
        "caf\xc3\xa9 \xe2\x86\x92 \xf0\x9f\x98\x80");
  CHECK(Printable("a\x1b[31mb") == "a\\x1b[31mb");
  CHECK(Printable("a\nb\tc\rd") == "a\\nb\\tc\\x0dd");
  CHECK(Printable(std::string("\0\x7f", 2)) == "\\x00\\x7f");
  CHECK(Printable("\xc2\x9b") == "\\xc2\\x9b");  // the one-byte CSI, in UTF-8
  CHECK(Printable("\x9b") == "\\x9b");
  CHECK(Printable("\xff\xfe") == "\\xff\\xfe");
  CHECK(Printable("\xc3") == "\\xc3");                             // cut off
  CHECK(Printable("\xc0\x9b") == "\\xc0\\x9b");                    // longer than needed
  CHECK(Printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");           // half of a pair
  CHECK(Printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // beyond the last character
  CHECK(Printable("\xe2\x28\xa1") == "\\xe2(\\xa1");
}

TEST_CASE("a very long name is shortened where it is quoted") {
  CHECK(Quote("a b") == "\"a b\"");
  const std::string quoted = Quote(std::string(10'000, 'x'));
  CHECK(quoted.size() < 120);
  CHECK(quoted.find("10000 characters") != std::string::npos);
}

TEST_CASE("a suggested word can be pasted into a shell") {
  CHECK(ShellWord("./a-b_c.d@5") == "./a-b_c.d@5");
  CHECK(ShellWord("my file") == "'my file'");
  CHECK(ShellWord("it's") == "'it'\\''s'");
  CHECK(ShellWord("$(rm)") == "'$(rm)'");
  CHECK(ShellWord("") == "''");
  CHECK(ShellWord("a\x1b") == "'a\\x1b'");
}

TEST_CASE("tables align their columns by characters and leave no spaces at line ends") {
  Table table({{"NAME"}, {"SIZE", Table::Align::kRight}, {"NOTE"}});
  table.Add({"caf\xc3\xa9", "1 GiB", ""});
  table.Add({"b", "16 EiB", "x\ny"});
  std::ostringstream out;
  table.Print(out);
  CHECK(out.str() ==
        "NAME    SIZE  NOTE\n"
        "caf\xc3\xa9   1 GiB  -\n"
        "b     16 EiB  x\\ny\n");
  std::ostringstream rows;
  table.PrintRows(rows, "  ");
  CHECK(rows.str() ==
        "  caf\xc3\xa9   1 GiB  -\n"
        "  b     16 EiB  x\\ny\n");
}

TEST_CASE("an empty table is its titles") {
  std::ostringstream out;
  Table({{"NAME"}, {"SIZE"}}).Print(out);
  CHECK(out.str() == "NAME  SIZE\n");
}

TEST_CASE("durations are shown in about three digits") {
  CHECK(FormatSeconds(0) == "0 us");
  CHECK(FormatSeconds(0.000012) == "12 us");
  CHECK(FormatSeconds(0.0412) == "41.2 ms");
  CHECK(FormatSeconds(0.412) == "412 ms");
  CHECK(FormatSeconds(1.25) == "1.25 s");
  CHECK(FormatSeconds(59.5) == "59.5 s");
  CHECK(FormatSeconds(200) == "3m 20s");
  CHECK(FormatSeconds(7500) == "2h 5m");
  CHECK(FormatSeconds(-1) == "-");
  CHECK(FormatSeconds(1.0 / 0.0) == "-");
}

TEST_CASE("times are RFC 3339 in UTC, and nothing where they are not known") {
  CHECK(FormatTime(std::chrono::system_clock::from_time_t(1'700'000'000)) ==
        "2023-11-14T22:13:20Z");
  CHECK(FormatTime({}).empty());
}

TEST_CASE("options that take a time say which one was wrong") {
  const auto good = ParseTimeOption("--deadline", "1500ms");
  REQUIRE_OK(good);
  CHECK(good->count() == 1500);
  const auto* text = GENERATE("", "30", "-5s", "1.5s", "5x", "0s");
  INFO(text);
  const onecopy::Status status = ParseTimeOption("--deadline", text).status();
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.message().find("--deadline: ") == 0);
  CHECK_FALSE(status.remedy().empty());
}

TEST_CASE("every code has the exit status of the table") {
  const auto [code, exit_status] = GENERATE(table<Code, int>({
      {Code::kOk, 0},
      {Code::kInternal, 1},
      {Code::kUnknown, 1},
      {Code::kInvalidArgument, 2},
      {Code::kOutOfRange, 2},
      {Code::kAlreadyExists, 2},
      {Code::kNotFound, 3},
      {Code::kPermissionDenied, 4},
      {Code::kUnauthenticated, 4},
      {Code::kUnavailable, 5},
      {Code::kDataLoss, 6},
      {Code::kFailedPrecondition, 7},
      {Code::kUnimplemented, 7},
      {Code::kDeadlineExceeded, 8},
      {Code::kResourceExhausted, 9},
      {Code::kAborted, 10},
      {Code::kCancelled, 130},
  }));
  CHECK(ExitStatusOf(code) == exit_status);
}

TEST_CASE("text that is too wide loses its middle, by characters") {
  CHECK(Shortened("weights", 7) == "weights");
  CHECK(Shortened("west:weights@4096", 9) == "west…4096");
  CHECK(Shortened("caf\xc3\xa9-caf\xc3\xa9", 4) == "ca…\xc3\xa9");
  CHECK(Shortened("abc", 2) == "ab");
  CHECK(Cut("caf\xc3\xa9-x", 4) == "caf\xc3\xa9");
  CHECK(Cut("abc", 9) == "abc");
}

TEST_CASE("a table that is too wide loses columns, then spaces, then the middle of long cells") {
  Table table({{"ID"},
               {.title = "END", .least = 4},
               {.title = "SIZE", .goes = 2},
               {.title = "STARTED", .goes = 1}});
  table.Add({"id", "a-very-long-end", "1 GiB", "2026-11-21"});
  const auto printed = [&table](size_t width) {
    std::ostringstream out;
    table.Print(out, width);
    return out.str();
  };
  CHECK(printed(80) ==
        "ID  END              SIZE   STARTED\n"
        "id  a-very-long-end  1 GiB  2026-11-21\n");
  CHECK(printed(30) ==
        "ID  END              SIZE\n"
        "id  a-very-long-end  1 GiB\n");
  CHECK(printed(19) ==
        "ID  END\n"
        "id  a-very-long-end\n");
  CHECK(printed(10) ==
        "ID END\n"
        "id a-v…end\n");
  CHECK(printed(5) ==
        "ID EN\n"
        "id a-\n");
}
