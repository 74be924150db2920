#include "bench/measure/row.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/measure/row_json.h"
#include "bench/measure/row_table.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"

namespace onecopy::bench {
namespace {

using Json = nlohmann::json;

Row RateRow() {
  return {.work = "tcp host to host",
          .path = "tcp-direct",
          .bytes = 1024,
          .values = {80, 90, 70},
          .ceiling = "plain-sockets",
          .ceiling_values = {100, 100, 100},
          .floor = 0.8,
          .verified = true};
}

Json OnlyRow(const Row& row) {
  const Json list = Json::parse(ToJson({row}, {}));
  REQUIRE(list.size() == 1);
  return list.front();
}

TEST_CASE("a row at its floor is OK and one below it FAILED, with both figures") {
  CHECK(Evaluated(RateRow()).status == RowStatus::kOk);
  Row slow = RateRow();
  slow.values = {79, 79, 79};
  slow = Evaluated(slow);
  CHECK(slow.status == RowStatus::kFailed);
  CHECK(slow.reason == "BELOW_FLOOR");
  CHECK(slow.detail.find("0.79") != std::string::npos);
  CHECK(slow.detail.find("0.8") != std::string::npos);
}

TEST_CASE("a row over its roof FAILED, and its target decides about nothing") {
  Row row = RateRow();
  row.floor.reset();
  row.target = 0.95;
  row.roof = 0.8;
  CHECK(Evaluated(row).status == RowStatus::kOk);
  row.roof = 0.7;
  CHECK(Evaluated(row).reason == "OVER_LIMIT");
}

TEST_CASE("a row without a floor is OK however slow") {
  Row row = RateRow();
  row.floor.reset();
  row.values = {1, 1, 1};
  CHECK(Evaluated(row).status == RowStatus::kOk);
}

TEST_CASE("a row whose payload was wrong FAILED however fast") {
  Row row = RateRow();
  row.verified = false;
  row.values = {1000, 1000, 1000};
  CHECK(Evaluated(row).reason == "PAYLOAD_WRONG");
}

TEST_CASE("a row over its limit FAILED and says who was it") {
  Row row = {.work = "idle cpu east", .unit = Unit::kCores, .values = {0.002}, .limit = 0.001};
  row.detail = "rpc-1 0.2 %";
  row = Evaluated(row);
  CHECK(row.status == RowStatus::kFailed);
  CHECK(row.reason == "OVER_LIMIT");
  CHECK(row.detail.find("rpc-1") != std::string::npos);
  row.values = {0.001};
  CHECK(Evaluated(row).status == RowStatus::kOk);
}

TEST_CASE("a rate as JSON has every key of the contract") {
  const Json row = OnlyRow(Evaluated(RateRow()));
  CHECK(row["work"] == "tcp host to host");
  CHECK(row["path"] == "tcp-direct");
  CHECK(row["bytes"] == 1024);
  CHECK(row["unit"] == "B/s");
  CHECK(row["median_bytes_per_second"] == 80);
  CHECK(row["min"] == 70);
  CHECK(row["max"] == 90);
  CHECK(row["samples"] == 3);
  CHECK(row["ceiling"] == "plain-sockets");
  CHECK(row["ceiling_bytes_per_second"] == 100);
  CHECK(row["ratio"] == 0.8);
  CHECK(row["floor"] == 0.8);
  CHECK(row["verified"] == true);
  CHECK(row["status"] == "OK");
  CHECK(row["reason"].is_null());
}

TEST_CASE("a figure that is no rate as JSON has a unit, a limit and no rate") {
  const Json row = OnlyRow(Evaluated(
      {.work = "ready", .unit = Unit::kSeconds, .values = {0.25, 0.5, 0.75}, .limit = 1}));
  CHECK(row["unit"] == "s");
  CHECK(row["median"] == 0.5);
  CHECK(row["limit"] == 1);
  CHECK(row["median_bytes_per_second"].is_null());
  CHECK(row["ceiling"].is_null());
  CHECK(row["ratio"].is_null());
  CHECK(row["verified"].is_null());
}

TEST_CASE("a row that cannot run is there, with its reason and without figures") {
  Row row = RateRow();
  row.values.clear();
  row.ceiling_values.clear();
  row.verified.reset();
  const Row waived =
      Waived(row, {Code::kFailedPrecondition, reasons::kNoDriver, "no libcuda", "install it"});
  const Json json = OnlyRow(waived);
  CHECK(json["status"] == "WAIVED");
  CHECK(json["reason"] == "NO_DRIVER");
  CHECK(json["detail"] == "no libcuda (install it)");
  CHECK(json["median_bytes_per_second"].is_null());
  CHECK(json["ratio"].is_null());
  CHECK(json["samples"] == 0);
}

TEST_CASE("an error's text that is no UTF-8 does not break the JSON") {
  const Row row = Failed(RateRow(), {Code::kInternal, reasons::kInternal, "odd \xff byte"});
  CHECK(OnlyRow(row)["status"] == "FAILED");
}

TEST_CASE("people get a line for each row, and the reason of each that is not OK") {
  Row slow = RateRow();
  slow.values = {10, 10, 10};
  std::ostringstream out;
  PrintTable({Evaluated(RateRow()), Evaluated(slow)}, out);
  const std::string text = out.str();
  CHECK(text.find("tcp-direct") != std::string::npos);
  CHECK(text.find("0.800") != std::string::npos);
  CHECK(text.find("BELOW_FLOOR") != std::string::npos);
}

TEST_CASE("a reason that several works have is printed once, with all of them") {
  const Status none(Code::kFailedPrecondition, reasons::kNoGpu, "no GPU");
  std::ostringstream out;
  PrintTable(
      {Waived({.work = "a"}, none), Waived({.work = "a"}, none), Waived({.work = "b"}, none)}, out);
  CHECK(out.str().find("\na; b: WAIVED, NO_GPU: no GPU\n") != std::string::npos);
  CHECK(out.str().find("no GPU") == out.str().rfind("no GPU"));
}

}  // namespace
}  // namespace onecopy::bench
