// Rows that are read back, and the page that is made of them.
#include "bench/report/page.h"

#include <limits>

#include "bench/measure/row_csv.h"
#include "bench/measure/row_json.h"
#include "tests/support/catch.h"

namespace onecopy::bench {
namespace {

bool Has(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

Row Measured(std::string work, std::string path, uint64_t bytes) {
  Row row = {.work = std::move(work),
             .path = std::move(path),
             .bytes = bytes,
             .values = {2e9, 4e9, 3e9},
             .ceiling = "plain-sockets",
             .ceiling_values = {4e9, 4e9, 6e9},
             .floor = 0.5,
             .target = 0.95,
             .verified = true};
  row.details["copies"] = 3;
  return Evaluated(std::move(row));
}

std::vector<Row> SomeRows() {
  Row cpu = {.work = "cpu tcp host to host",
             .path = "tcp-direct",
             .bytes = 1 << 20,
             .unit = Unit::kSecondsPerGigabyte,
             .values = {0.5},
             .ceiling = "plain-sockets",
             .ceiling_values = {0.4},
             .roof = 2};
  Row waived = Waived({.work = "peer gpu to gpu", .path = "peer-direct", .bytes = 4096},
                      {Code::kFailedPrecondition, "NO_GPU", "no <GPU> & \"none\"", "buy one"});
  return {Measured("tcp host to host", "tcp-direct", 4096),
          Measured("tcp host to host", "tcp-direct", 1 << 20), cpu, waived};
}

const RunFacts kRun = {"a machine, 2 cores", "2026-11-21T20:10:00Z", "1.2"};

TEST_CASE("rows that are written are read back as they were") {
  const auto read = FromJson(ToJson(SomeRows(), kRun));
  INFO(read.status().ToString());
  REQUIRE(read.ok());
  std::vector<Row> rows;
  for (const RecordedRow& recorded : *read) {
    CHECK(recorded.run.machine == kRun.machine);
    CHECK(recorded.run.time == kRun.time);
    CHECK(recorded.run.version == kRun.version);
    rows.push_back(recorded.row);
  }
  CHECK(ToJson(rows, kRun) == ToJson(SomeRows(), kRun));
}

TEST_CASE("rows of a bench that told less are read, too") {
  const auto read = FromJson(
      R"([{"work": "w", "path": null, "bytes": 1, "unit": "B/s", "values": [], "ceiling": null,
           "ceiling_values": [], "floor": null, "limit": null, "verified": null, "status": "OK",
           "reason": null, "detail": null, "details": {}}])");
  REQUIRE(read.ok());
  CHECK(read->front().run.machine.empty());
}

TEST_CASE("what is no list of rows is said to be wrong, and where") {
  const auto says = [](const std::string& text, const std::string& what) {
    const auto read = FromJson(text);
    INFO(text);
    REQUIRE_FALSE(read.ok());
    INFO(read.status().message());
    CHECK(read.status().code() == Code::kInvalidArgument);
    CHECK(Has(read.status().message(), what));
  };
  says("", "empty");
  says(" \n", "empty");
  says("rubbish", "not a JSON document");
  says("\x80\xff\x01", "not a JSON document");
  says("[{\"work\": 1e999}]", "not a JSON document");
  says("{}", "not a list");
  says("[]", "no rows");
  says("[3]", "row 1 is not an object");
  const std::string whole = ToJson(SomeRows(), kRun);
  says(whole.substr(0, whole.size() / 2), "not a JSON document");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    return text.replace(text.find(from), from.size(), to);
  };
  says(with("\"work\"", "\"kwor\""), "row 1: there is no \"work\"");
  says(with("\"bytes\": 4096", "\"bytes\": -4096"), "row 1: \"bytes\"");
  says(with("\"bytes\": 4096", "\"bytes\": \"many\""), "row 1: \"bytes\"");
  says(with("\"status\": \"OK\"", "\"status\": \"FINE\""), "row 1: \"status\"");
  says(with("\"unit\": \"B/s\"", "\"unit\": \"miles\""), "row 1: \"unit\"");
  says(with("\"verified\": true", "\"verified\": 1"), "row 1: \"verified\"");
  says(with("\"copies\": 3.0", "\"copies\": \"three\""), "row 1: \"details\"");
  says(with("6000000000.0", "\"fast\""), "row 1: \"ceiling_values\"");
}

TEST_CASE("values that do not pair with those of the ceiling are refused") {
  std::vector<Row> rows = {Measured("w", "tcp-direct", 1)};
  rows[0].ceiling.clear();  // so that writing does not pair them
  rows[0].values.pop_back();
  std::string text = ToJson(rows, kRun);
  const std::string none = "\"ceiling\": null";
  text.replace(text.find(none), none.size(), "\"ceiling\": \"c\"");
  const auto read = FromJson(text);
  REQUIRE_FALSE(read.ok());
  CHECK(Has(read.status().message(), "as long as"));
}

TEST_CASE("the page holds tables and drawings, and needs nothing else") {
  std::vector<RecordedRow> rows;
  for (Row& row : SomeRows()) rows.push_back({std::move(row), kRun});
  const std::string page = PageOf(rows);
  CHECK(Has(page, "<!DOCTYPE html>"));
  CHECK(Has(page, "a machine, 2 cores · 2026-11-21T20:10:00Z · onecopy-bench 1.2"));
  CHECK(Has(page, "3 OK"));
  CHECK(Has(page, "1 WAIVED"));
  CHECK(Has(page, "0 FAILED"));
  CHECK(Has(page, "Bandwidth over size, between nodes"));
  CHECK(Has(page, "Share of the ceiling between nodes"));
  CHECK(Has(page, "Copies against bandwidth"));
  CHECK(Has(page, "<h2>Targets</h2>"));
  CHECK(Has(page, "no &lt;GPU&gt; &amp; &quot;none&quot; (buy one)"));
  CHECK_FALSE(Has(page, "Bandwidth over size, inside a node"));  // nothing was measured there
  for (const char* outside : {"<script", "http", "src=", "href=", "url("}) {
    INFO(outside);
    CHECK_FALSE(Has(page, outside));
  }
  CHECK_FALSE(Has(page, "nan"));
  CHECK_FALSE(Has(page, "inf"));
}

TEST_CASE("a page of rows without figures is a page, and odd figures draw no nonsense") {
  const Row waived = Waived({.work = "w"}, {Code::kNotFound, "R", "d"});
  CHECK(Has(PageOf({{waived, {}}}), "an unknown machine"));
  Row zero = Measured("w", "tcp-direct", 4096);
  zero.values = zero.ceiling_values = {0, 0, 0};
  Row huge = Measured("w", "tcp-direct", std::numeric_limits<uint64_t>::max());
  huge.values = {1e300, 1e300, 1e300};
  const Row odd = {.work = "m", .unit = Unit::kBytes, .values = {-1e300, 1e300}, .limit = 1e300};
  const std::string page = PageOf({{zero, {}}, {huge, {}}, {odd, {}}});
  CHECK_FALSE(Has(page, "nan"));
  CHECK_FALSE(Has(page, "inf,"));
  CHECK(page.size() < 1 << 20);
}

TEST_CASE("what could not run is told once, without what is computed beside it") {
  const Status why{Code::kFailedPrecondition, "NO_GPU", "there is none"};
  const Row rate = Waived({.work = "peer gpu to gpu"}, why);
  const Row cpu = Waived({.work = "cpu peer gpu to gpu", .unit = Unit::kSecondsPerGigabyte}, why);
  const Row traffic = Waived({.work = "traffic peer gpu to gpu", .unit = Unit::kBytesPerByte}, why);
  const std::string page = PageOf({{rate, {}}, {cpu, {}}, {traffic, {}}});
  CHECK(Has(page, "3 WAIVED"));
  CHECK(Has(page, "<td>peer gpu to gpu</td>"));
  CHECK_FALSE(Has(page, "cpu peer gpu to gpu"));
  CHECK_FALSE(Has(page, "traffic peer gpu to gpu"));
}

TEST_CASE("spreadsheets get a line of titles and one for each row") {
  Row odd = Measured("tcp, \"odd\"\nwork", "tcp-direct", 5);
  const std::string csv = ToCsv({odd, SomeRows()[3]});
  CHECK(csv.rfind("work,path,bytes,unit,median,", 0) == 0);
  CHECK(Has(csv,
            "\r\n\"tcp, \"\"odd\"\"\nwork\",tcp-direct,5,B/s,3000000000,2000000000,4000000000,"
            "3,plain-sockets,4000000000,0.5,0.5,,0.94999999999999996,,true,OK,,\r\n"));
  CHECK(Has(csv, "peer gpu to gpu,peer-direct,4096,B/s,,,,0,,,,,,,,,WAIVED,NO_GPU,"));
}

}  // namespace
}  // namespace onecopy::bench
