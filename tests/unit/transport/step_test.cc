#include "transport/core/contracts/step.h"

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

TEST_CASE("what two engines did parts of is one pass, by both") {
  const Step kernel{"east", "GPU-1", "pinned", "gpu-kernel"};
  const Step engine{"east", "GPU-1", "pinned", "copy-engine"};
  const Step in{"east", "pinned", "GPU-1", "copy-engine"};
  StepTally tally;
  tally.Add(List({kernel, in}), 10);
  tally.Add(List({engine, in}), 2);
  tally.Add(List({kernel, in}), 1);
  REQUIRE(tally.entries().size() == 2);
  CHECK(tally.entries()[0].step.by == "gpu-kernel,copy-engine");
  CHECK(tally.entries()[0].bytes == 13);
  CHECK(tally.entries()[1].step == in);
  CHECK(tally.entries()[1].bytes == 13);
}

TEST_CASE("two engines within a list are two passes, and a wire is no engine") {
  StepTally tally;
  tally.Add(List({{"east", "host", "host", "cpu"}, {"east", "host", "host", "client"}}), 7);
  REQUIRE(tally.entries().size() == 2);
  CHECK(tally.entries()[1].step.by == "client");
  tally.Add(List({{"east", "host", "host", "wire"}}), 7);
  CHECK(tally.entries().size() == 3);
}

TEST_CASE(
    "bytes that took a detour first end in the pass of those that did not, whoever moved it") {
  // A file: whole blocks by its device, what is left over by way of the page cache.
  const StepList direct = List({{"east", "file", "host", "storage"}});
  const StepList cached =
      List({{"east", "file", "page-cache", "storage"}, {"east", "page-cache", "host", "cpu"}});
  for (const bool direct_first : {true, false}) {
    INFO(direct_first);
    StepTally tally;
    if (direct_first) tally.Add(direct, 4096);
    tally.Add(cached, 10);
    if (!direct_first) tally.Add(direct, 4096);
    REQUIRE(tally.entries().size() == 2);
    CHECK(tally.entries()[0].step.to == "page-cache");
    CHECK(tally.entries()[0].bytes == 10);
    CHECK(tally.entries()[1].step.from == "page-cache");
    CHECK(tally.entries()[1].step.to == "host");
    CHECK(tally.entries()[1].bytes == 4106);
  }
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

TEST_CASE("a step that only some bytes took first leaves one entry for each of those after it") {
  const Step copy{"east", "host", "kernel", "cpu"};
  const Step wire{"west", "kernel", "kernel", "wire"};
  const Step straight{"west", "host", "kernel", "wire"};
  const Step in{"west", "kernel", "host", "cpu"};
  const StepList longer = List({copy, wire, in});
  const StepList shorter = List({straight, in});
  for (const bool longer_first : {true, false}) {
    StepTally tally;
    tally.Add(longer_first ? longer : shorter, 10);
    tally.Add(longer_first ? shorter : longer, 10);
    tally.Add(shorter, 1);
    tally.Add(longer, 5);
    const auto& entries = tally.entries();
    REQUIRE(entries.size() == 3);
    CHECK(entries[0].step == copy);
    CHECK(entries[1].step == wire);
    CHECK(entries[2].step == in);
    CHECK(entries[0].bytes == 15);
    CHECK(entries[1].bytes == 26);
    CHECK(entries[2].bytes == 26);
  }
  StepTally alone;
  alone.Add(shorter, 10);
  REQUIRE(alone.entries().size() == 2);
  CHECK(alone.entries()[0].step == straight);
}

TEST_CASE("steps that begin in different memories stay apart") {
  StepTally tally;
  tally.Add(List({{"east", "a", "c", "cpu"}}), 1);
  tally.Add(List({{"east", "b", "c", "cpu"}}), 2);
  CHECK(tally.entries().size() == 2);
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
