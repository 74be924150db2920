// `onecopy-bench report` as its user runs it.
#include "tests/support/catch.h"
#include "tests/support/node.h"

namespace onecopy::testing {
namespace {

CommandResult Report(const std::string& rows, const std::string& html) {
  return RunCommand("onecopy-bench", {"report", rows, "--html", html});
}

TEST_CASE("a run becomes a page, and a table for spreadsheets") {
  const TempFolder folder;
  const CommandResult run = RunCommand(
      "onecopy-bench", {"run", "--filter", "tcp host to host", "--sizes", "4KiB,1MiB", "--samples",
                        "1", "--json", folder / "rows.json", "--csv", folder / "rows.csv"});
  INFO(run.err);
  REQUIRE(run.exit_status == 0);
  const Json rows = Json::parse(ReadFile(folder / "rows.json"));
  CHECK(rows.at(0).at("machine").get<std::string>().find("core") != std::string::npos);
  CHECK(rows.at(0).at("time").get<std::string>().size() == 20);
  const std::string csv = ReadFile(folder / "rows.csv");
  CHECK(csv.find("tcp host to host,tcp-direct,4096,B/s,") != std::string::npos);
  const CommandResult report = Report(folder / "rows.json", folder / "page.html");
  INFO(report.err);
  CHECK(report.exit_status == 0);
  const std::string page = ReadFile(folder / "page.html");
  CHECK(page.find("<svg class=\"plot\"") != std::string::npos);
  CHECK(page.find("</html>") != std::string::npos);
}

TEST_CASE("a report of nothing usable says what is wrong, and writes no page") {
  const TempFolder folder;
  const auto refuses = [&](const std::string& file, int exit_status, const std::string& what) {
    const CommandResult result = Report(file, folder / "page.html");
    INFO(result.err);
    CHECK(result.exit_status == exit_status);
    CHECK(result.err.find(file) != std::string::npos);
    CHECK(result.err.find(what) != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(folder / "page.html"));
  };
  const auto with = [&](const std::string& text) {
    WriteFile(folder / "rows.json", text);
    return folder / "rows.json";
  };
  refuses("/nonexistent/rows.json", 3, "cannot be read");
  refuses(folder.path().string(), 3, "cannot be read");
  refuses(with(""), 2, "empty");
  refuses(with("[{\"work\": \"tcp ho"), 2, "not a JSON document");
  refuses(with(std::string("\0\xff rubbish", 10)), 2, "not a JSON document");
  refuses(with("{\"rows\": []}"), 2, "not a list");
  refuses(with("[]"), 2, "no rows");
  refuses(with("[{}]"), 2, "row 1: there is no \"work\"");
}

TEST_CASE("a page that cannot be written is an error") {
  const TempFolder folder;
  const CommandResult run =
      RunCommand("onecopy-bench", {"run", "--filter", "registration", "--size", "4KiB", "--samples",
                                   "1", "--json", folder / "rows.json"});
  REQUIRE(run.exit_status == 0);
  CHECK(Report(folder / "rows.json", "/nonexistent/page.html").exit_status == 2);
  CHECK(Report(folder / "rows.json", "/dev/full").exit_status == 1);
  CHECK(RunCommand("onecopy-bench", {"report", folder / "rows.json"}).exit_status == 2);
  CHECK(RunCommand("onecopy-bench", {"report", "--html", folder / "page.html"}).exit_status == 2);
}

}  // namespace
}  // namespace onecopy::testing
