#include "transport/core/step.h"

#include "tests/support/catch.h"

using onecopy::Step;
using onecopy::StepList;
using onecopy::StepTally;

namespace {

StepList List(std::vector<Step> steps) {
  return std::make_shared<const std::vector<Step>>(std::move(steps));
}

}  // namespace

TEST_CASE("equal steps of different lists are one step, with their bytes added") {
  StepTally tally;
  tally.Add(List({{"east", "host", "kernel", "cpu"}, {"east", "kernel", "kernel", "wire"}}), 10);
  tally.Add(List({{"east", "host", "kernel", "cpu"}, {"east", "kernel", "kernel", "wire"}}), 5);
  REQUIRE(tally.entries().size() == 2);
  CHECK(tally.entries()[0].bytes == 15);
  CHECK(tally.entries()[1].bytes == 15);
}

TEST_CASE("two passes of one kind within a list stay two steps") {
  StepTally tally;
  const StepList twice = List({{"east", "host", "host", "cpu"}, {"east", "host", "host", "cpu"}});
  tally.Add(twice, 7);
  tally.Add(twice, 1);
  REQUIRE(tally.entries().size() == 2);
  CHECK(tally.entries()[0].bytes == 8);
  CHECK(tally.entries()[1].bytes == 8);
}

TEST_CASE("a step that only some chunks took is a step with fewer bytes") {
  StepTally tally;
  const Step direct{"east", "a", "b", "copy-engine"};
  tally.Add(List({direct}), 100);
  tally.Add(List({direct, {"east", "b", "c", "cpu"}}), 1);
  tally.Add(nullptr, 1000);
  tally.Add(List({direct}), 0);
  REQUIRE(tally.entries().size() == 2);
  CHECK(tally.entries()[0].bytes == 101);
  CHECK(tally.entries()[1].bytes == 1);
}
