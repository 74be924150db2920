// The search for the best settings, over rates that the test makes up.
#include <set>

#include "bench/tune/choice.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"

using onecopy::Code;
using onecopy::Result;
using onecopy::Status;
using onecopy::bench::Choice;
using onecopy::bench::FindBest;
using onecopy::bench::TunedFile;

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

Status Refused(Code code) { return {code, onecopy::reasons::kNoMemory, "not with these"}; }

}  // namespace

TEST_CASE("each setting is tried beside the best of those before it") {
  const auto search = FindBest(32, [](const Choice& choice) -> Result<double> {
    double rate = 10;
    if (choice.lanes == 16) rate += 5;
    if (choice.slot_bytes == kMiB) rate += 5;
    if (choice.lanes == 16 && choice.socket_buffer_bytes == kMiB / 2) rate += 5;
    return rate;
  });
  REQUIRE_OK(search);
  CHECK(search->best.choice.lanes == 16);
  CHECK(search->best.choice.slot_bytes == kMiB);
  CHECK(search->best.choice.socket_buffer_bytes == kMiB / 2);
  CHECK(search->best.bytes_per_second == 25);
  CHECK(search->trials.front().choice == Choice{});
}

TEST_CASE("a little better is not better: the defaults stay") {
  int calls = 0;
  const auto search =
      FindBest(8, [&](const Choice&) -> Result<double> { return calls++ == 0 ? 100 : 104; });
  REQUIRE_OK(search);
  CHECK(search->best.choice == Choice{});
}

TEST_CASE("no choice is measured twice, and none has more lanes than cores") {
  for (const unsigned cores : {1U, 2U, 4U, 32U, 256U}) {
    std::set<std::string> seen;
    const auto search = FindBest(cores, [&](const Choice& choice) -> Result<double> {
      CHECK(seen.insert(choice.ToString()).second);
      CHECK(choice.lanes <= cores);
      CHECK(choice.slots >= 4);
      return 1;
    });
    REQUIRE_OK(search);
    CHECK(search->trials.size() == seen.size());
  }
}

TEST_CASE("what cannot be measured is left out; defaults that cannot, and a stop, end the search") {
  const auto some = FindBest(8, [](const Choice& choice) -> Result<double> {
    if (choice.slots > 64) return Refused(Code::kResourceExhausted);
    return 1;
  });
  REQUIRE_OK(some);
  for (const auto& trial : some->trials) CHECK(trial.choice.slots <= 64);

  const auto none = FindBest(
      8, [](const Choice&) -> Result<double> { return Refused(Code::kResourceExhausted); });
  CHECK(none.status().code() == Code::kResourceExhausted);

  int calls = 0;
  const auto stopped = FindBest(8, [&](const Choice&) -> Result<double> {
    if (++calls == 3) return Refused(Code::kCancelled);
    return 1;
  });
  CHECK(stopped.status().code() == Code::kCancelled);
  CHECK(calls == 3);
}

TEST_CASE("the file is what onecopyd reads") {
  CHECK(TunedFile({.slot_bytes = kMiB, .slots = 128, .lanes = 16, .socket_buffer_bytes = kMiB / 2},
                  {"why"}) ==
        "# why\nversion = 1\n[staging]\nslot_bytes = \"1MiB\"\nslots = 128\n[tcp]\nlanes = 16\n"
        "socket_buffer = \"512KiB\"\n");
}
