#include "daemon/config/config.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/unit/log/captured.h"

namespace onecopy {
using testing::Captured;

namespace {

void LogAtEveryLevel() {
  log::Debug("d");
  log::Info("i");
  log::Warning("w");
  log::Error("e");
}

}  // namespace

TEST_CASE("records below the level are not written") {
  const auto [level, count] = GENERATE(
      table<const char*, size_t>({{"debug", 4}, {"info", 3}, {"warning", 2}, {"error", 1}}));
  const Captured captured;
  REQUIRE_OK(log::SetLevel(level));
  LogAtEveryLevel();
  CHECK(captured.Lines().size() == count);
}

TEST_CASE("setting the level tells the one before") {
  const Captured captured;
  auto previous = log::SetLevel("error");
  REQUIRE_OK(previous);
  CHECK(*previous == "info");
  previous = log::SetLevel("debug");
  REQUIRE_OK(previous);
  CHECK(*previous == "error");
}

TEST_CASE("an unknown level is refused and changes nothing") {
  const Captured captured;
  const auto* name = GENERATE("", "trace", "warn", "INFO", "info ", "off", "3");
  const auto previous = log::SetLevel(name);
  REQUIRE_FALSE(previous.ok());
  CHECK(previous.status().code() == Code::kInvalidArgument);
  CHECK(previous.status().reason() == reasons::kBadArgument);
  CHECK(log::Enabled(log::Level::kInfo));
  CHECK_FALSE(log::Enabled(log::Level::kDebug));
}

TEST_CASE("the configuration accepts the levels that there are") {
  for (const char* name : {"debug", "info", "warning", "error", "trace", "warn", "off", "fatal"}) {
    INFO(name);
    const std::string file = "[log]\nlevel = \"" + std::string(name) + "\"\n";
    CHECK(config::Parse(file, "f", {}).ok() == log::ParseLevel(name).ok());
  }
}

TEST_CASE("every level's name reads back as the level") {
  for (const auto level :
       {log::Level::kDebug, log::Level::kInfo, log::Level::kWarning, log::Level::kError}) {
    const auto parsed = log::ParseLevel(log::LevelName(level));
    REQUIRE_OK(parsed);
    CHECK(*parsed == level);
  }
}

}  // namespace onecopy
