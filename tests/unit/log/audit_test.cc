#include "daemon/log/audit.h"

#include <fstream>
#include <iterator>

#include "daemon/config/config.h"
#include "daemon/config/sections.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/log/captured.h"

namespace onecopy {
using testing::Captured;

namespace {

const Status kDenied(Code::kPermissionDenied, reasons::kNotOwner, "no");
const Status kFull(Code::kResourceExhausted, reasons::kQuota, "too many");
const Status kNoSpace(Code::kResourceExhausted, reasons::kNoSpace, "the disk is full");

void Ask(const Status& why, bool rights = false, std::string_view who = "1000@east",
         std::string_view account = {}) {
  audit::Write({.who = who,
                .from = "pid 17 (cp)",
                .what = "CreateGrant",
                .on = "a to 1001",
                .why = why,
                .rights = rights,
                .account = account});
}

struct Auditing {
  explicit Auditing(const audit::Options& options) { audit::SetOutput(nullptr, options); }
  ~Auditing() { audit::SetOutput(nullptr, {}); }
  Captured captured;  // the log, where it goes
};

}  // namespace

TEST_CASE("a decision is one line: who, from where, what, on what, how, and why") {
  const Auditing with({});
  Ask(kDenied);
  Ask(OkStatus(), true);
  const auto lines = with.captured.Lines();
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].substr(25) ==
        "warning audit who=1000@east from=\"pid 17 (cp)\" what=CreateGrant on=\"a to 1001\" "
        "outcome=denied why=\"NOT_OWNER: no\"");
  CHECK(lines[1].substr(25) ==
        "info    audit who=1000@east from=\"pid 17 (cp)\" what=CreateGrant on=\"a to 1001\" "
        "outcome=allowed");
}

TEST_CASE("each level of the audit log has what the one before has, and more") {
  const auto [level, lines] = GENERATE(table<audit::Level, size_t>({{audit::Level::kOff, 0},
                                                                    {audit::Level::kDenied, 2},
                                                                    {audit::Level::kRights, 3},
                                                                    {audit::Level::kAll, 5}}));
  const Auditing with({.level = level});
  Ask(kDenied);
  Ask(kFull);
  Ask(OkStatus(), true);
  Ask(OkStatus());
  Ask(kNoSpace);
  CHECK(with.captured.Lines().size() == lines);
}

TEST_CASE("the log's own level does not silence the audit log") {
  const Auditing with({});
  REQUIRE_OK(log::SetLevel("error"));
  Ask(OkStatus(), true);
  CHECK(with.captured.Lines().size() == 1);
}

TEST_CASE("who asks without end fills the log of nobody else, and how much was left out is told") {
  const Auditing with({.most_per_minute = 60});
  for (int i = 0; i < 1000; ++i) Ask(kDenied);
  const size_t first = with.captured.Lines().size();
  CHECK(first >= 60);
  CHECK(first < 100);  // one more comes with each second
  Ask(kDenied, false, "1001@east");
  CHECK(with.captured.Lines().size() == first + 1);
  // All that one peer asks for, whoever it says that it is for, is counted together.
  for (int i = 0; i < 1000; ++i) Ask(kDenied, false, std::to_string(i) + "@west", "node west");
  CHECK(with.captured.Lines().size() < first + 101);
  // As soon as there is an allowance again.
  while (with.captured.Lines().back().find("left_out_before=") == std::string::npos) {
    Ask(kDenied);
  }
}

TEST_CASE("more who ask than can be told apart share one allowance") {
  const Auditing with({.most_per_minute = 2});
  for (int i = 0; i < 6000; ++i) Ask(kDenied, false, std::to_string(i) + "@east");
  const size_t lines = with.captured.Lines().size();
  CHECK(lines >= 4096);
  CHECK(lines < 4200);
}

TEST_CASE("the audit log may have a file of its own") {
  const testing::TempFolder folder;
  const Captured captured;
  const std::string file = folder / "audit.log";
  REQUIRE_OK(audit::Open({.file = file}));
  Ask(kDenied);
  audit::SetOutput(nullptr, {});  // which lets the file go
  std::string text;
  while (text.find("outcome=denied") == std::string::npos) {
    std::ifstream stream(file);
    text.assign(std::istreambuf_iterator<char>(stream), {});
  }
  CHECK(captured.Lines().empty());
  const Status wrong = audit::Open({.file = folder / "audit.log/no-folder"});
  CHECK(wrong.reason() == reasons::kBadConfig);
  CHECK(wrong.message().find("audit.log/no-folder") != std::string::npos);
}

TEST_CASE("the configuration's words are the audit log's levels, in their order") {
  for (size_t i = 0; i < config::AuditLevels().size(); ++i) {
    const auto level = audit::ParseLevel(config::AuditLevels()[i]);
    REQUIRE_OK(level);
    CHECK(static_cast<size_t>(*level) == i);
  }
  CHECK(audit::ParseLevel("some").status().reason() == reasons::kBadArgument);
}

}  // namespace onecopy
