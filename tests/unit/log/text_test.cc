#include <cstdlib>
#include <ctime>
#include <thread>

#include "onecopy/ids.h"
#include "tests/support/catch.h"
#include "tests/unit/log/captured.h"

namespace onecopy {
using testing::Captured;

namespace {

std::string Text(std::string_view message, std::initializer_list<log::Field> fields) {
  return log::TextOf({log::Level::kInfo, message, {fields.begin(), fields.size()}});
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

TEST_CASE("a line has time, level, message and fields") {
  const Captured captured;
  log::Info("transfer ended", {{"transfer", TransferId("t17")}, {"path", "tcp-staged"}});
  log::Warning("slow");
  log::Error("gone");
  const auto lines = captured.Lines();
  REQUIRE(lines.size() == 3);
  // 2026-01-31T13:37:00.123Z info    transfer ended transfer=t17 path=tcp-staged
  const std::string& first = lines[0];
  REQUIRE(first.size() > 25);
  std::string shape = first.substr(0, 24);
  for (char& c : shape) c = IsDigit(c) ? '0' : c;
  CHECK(shape == "0000-00-00T00:00:00.000Z");
  CHECK(first.substr(24) == " info    transfer ended transfer=t17 path=tcp-staged");
  CHECK(lines[1].substr(24) == " warning slow");
  CHECK(lines[2].substr(24) == " error   gone");
}

TEST_CASE("a record names the trace that a request has, and none where it has none") {
  const char* const text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  CHECK(Text("ended", {{"trace", *TraceContext::Parse(text)}, {"parts", 0}}) ==
        "ended trace=" + std::string(text) + " parts=0");
  CHECK(Text("ended", {{"trace", TraceContext()}, {"parts", 0}}) == "ended parts=0");
}

TEST_CASE("times are in UTC, wherever the machine is") {
  const char* const before = ::getenv("TZ");
  const std::string old = before == nullptr ? "" : before;
  ::setenv("TZ", "UTC-9", 1);  // as in Tokyo
  ::tzset();
  const auto hour = [](std::time_t now) {
    std::tm parts{};
    ::gmtime_r(&now, &parts);
    return parts.tm_hour;
  };
  const int earliest = hour(std::time(nullptr));
  const Captured captured;
  log::Info("now");
  const auto lines = captured.Lines();
  const int latest = hour(std::time(nullptr));
  before == nullptr ? ::unsetenv("TZ") : ::setenv("TZ", old.c_str(), 1);
  ::tzset();
  REQUIRE(lines.size() == 1);
  const int said = std::stoi(lines[0].substr(11, 2));
  CHECK((said == earliest || said == latest));
}

TEST_CASE("values of every type are written") {
  const std::string text = "owned";
  CHECK(Text("m", {{"literal", "word"},
                   {"text", text},
                   {"temporary", std::string("moved")},
                   {"view", std::string_view("seen")},
                   {"id", GrantId("s1")}}) ==
        "m literal=word text=owned temporary=moved view=seen id=s1");
  CHECK(Text("m", {{"signed", -1}, {"small", int8_t{-5}}, {"least", INT64_MIN}}) ==
        "m signed=-1 small=-5 least=-9223372036854775808");
  CHECK(Text("m", {{"unsigned", 1U}, {"port", uint16_t{7701}}, {"most", UINT64_MAX}}) ==
        "m unsigned=1 port=7701 most=18446744073709551615");
  CHECK(Text("m", {{"rate", 26.188}, {"whole", 3.0}, {"large", 1.5e12}}) ==
        "m rate=26.188 whole=3 large=1.5e+12");
  CHECK(Text("m", {{"yes", true}, {"no", false}}) == "m yes=true no=false");
}

TEST_CASE("texts that could be taken for something else are quoted") {
  CHECK(Text("m", {{"a", "two words"}}) == "m a=\"two words\"");
  CHECK(Text("m", {{"a", ""}}) == "m a=\"\"");
  CHECK(Text("m", {{"a", "x=y"}}) == "m a=\"x=y\"");
  CHECK(Text("m", {{"a", "say \"hi\""}}) == "m a=\"say \\\"hi\\\"\"");
  CHECK(Text("m", {{"a", "back\\slash"}}) == "m a=\"back\\\\slash\"");
  CHECK(Text("m", {{"a", "name/with:odd-chars@1+2"}}) == "m a=name/with:odd-chars@1+2");
}

TEST_CASE("a hostile text forges neither a line nor a field, nor steers a terminal") {
  const Captured captured;
  log::Info("peer \x1b[2J\ndied", {{"name", "x\n2026-01-01 error forged"},
                                   {"more", "\" level=\"root"},
                                   {"color", "\x1b[31m"},
                                   {"nul", std::string_view("a\0b", 3)}});
  const auto lines = captured.Lines();
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].substr(32) ==
        " peer \\x1b[2J\\ndied name=\"x\\n2026-01-01 error forged\" more=\"\\\" level=\\\"root\" "
        "color=\"\\x1b[31m\" nul=\"a\\x00b\"");
}

TEST_CASE("a message with braces is not a format") {
  const Captured captured;
  log::Info("{} {0} {:d} %s %v", {{"a", "{}"}});
  REQUIRE(captured.Lines().size() == 1);
  CHECK(captured.Lines()[0].ends_with("{} {0} {:d} %s %v a={}"));
}

TEST_CASE("huge texts are cut, and the cut is said") {
  const std::string line = Text(std::string(100'000, 'm'), {{"name", std::string(100'000, 'v')}});
  CHECK(line.size() < 20'000);
  CHECK(line.find("m…[100000 bytes] name=\"v") != std::string::npos);
  CHECK(line.ends_with("v…[100000 bytes]\""));
}

TEST_CASE("records of many threads stay whole while the level changes") {
  const Captured captured;
  constexpr int kThreads = 4;
  constexpr int kRecords = 200;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < kRecords; ++i) {
        log::Info("record", {{"thread", t}, {"number", i}, {"text", "some words"}});
        log::Debug("maybe", {{"thread", t}});
        const auto previous = log::SetLevel(i % 2 == 0 ? "debug" : "info");
        if (!previous.ok()) std::abort();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int records = 0;
  for (const std::string& line : captured.Lines()) {
    const bool whole = line.ends_with("text=\"some words\"");
    const bool maybe = line.find(" maybe thread=") != std::string::npos;
    CHECK(whole != maybe);
    records += whole ? 1 : 0;
  }
  CHECK(records == kThreads * kRecords);
}

}  // namespace onecopy
