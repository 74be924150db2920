#include "onecopy/status.h"

#include "onecopy/result.h"
#include "tests/support/catch.h"

using onecopy::Code;
using onecopy::Result;
using onecopy::Status;

namespace {

Result<int> Half(int number) {
  if (number % 2 != 0)
    return Status(Code::kInvalidArgument, "ODD", std::to_string(number) + " is odd");
  return number / 2;
}

Result<int> Quarter(int number) {
  ONECOPY_ASSIGN_OR_RETURN(const int half, Half(number));
  ONECOPY_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

}  // namespace

TEST_CASE("a failure says what failed and what to do") {
  const Status status(Code::kNotFound, "BUFFER_NOT_FOUND", "no buffer a on node east",
                      "see onecopy buffer ls");
  CHECK_FALSE(status.ok());
  CHECK(status.ToString() == "BUFFER_NOT_FOUND: no buffer a on node east (see onecopy buffer ls)");
  CHECK(status.WithContext("cp").message() == "cp: no buffer a on node east");
  CHECK(status.WithRefusals({{"local", "OTHER_NODE", "", ""}}).refusals().size() == 1);
  CHECK(Status().WithContext("cp").ok());
  CHECK(Status(Code::kOk, "", "").ok());
}

TEST_CASE("a result hands on the first failure") {
  CHECK(*Quarter(8) == 2);
  CHECK(Quarter(6).status().message() == "3 is odd");
  CHECK(Quarter(5).status().reason() == "ODD");
}

TEST_CASE("code numbers are gRPC's") {
  CHECK(static_cast<int>(Code::kUnauthenticated) == 16);
  CHECK(onecopy::CodeFromNumber(15) == Code::kDataLoss);
  CHECK(onecopy::CodeFromNumber(17) == Code::kUnknown);
  CHECK(onecopy::CodeFromNumber(-1) == Code::kUnknown);
}
