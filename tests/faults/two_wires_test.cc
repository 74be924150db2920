// Two nodes with two wires between them: sockets that are spread over the addresses of the node
// that is read from, and wires that carry nothing for a while.
#include <cstddef>
#include <string>
#include <vector>

#include "tests/faults/two_wires.h"

namespace two_wires_test {
namespace {

using onecopy::TransferId;
using onecopy::TransferInfo;
using namespace onecopy::testing;

struct Measured {
  double seconds = 0;
  uint64_t by_first = 0;
  uint64_t by_second = 0;
};

// One transfer of all bytes between nodes that have a connection already.
Measured Measure(WiresRig& rig, const Wires& wires) {
  rig.Copy(kSmall);
  const Meter first(wires.first);
  const Meter second(wires.second);
  const double seconds = rig.Copy(kBytes).receipt.seconds;
  return {seconds, first.bytes(), second.bytes()};
}

// Cuts the second wire once it has carried some of a quarter: the first one carries the rest.
TransferInfo LoseSecond(WiresRig& rig, Wires& wires) {
  rig.Copy(kSmall);
  const Meter first(wires.first);
  const Meter second(wires.second);
  const TransferId id = rig.Start(kBytes);
  WaitUntil("a quarter arrives", [&] {
    const TransferInfo now = Must(rig.in_east.GetTransfer(id));
    return now.bytes_done >= kBytes / 4 || onecopy::IsFinal(now.state);
  });
  wires.second.Cut();
  const uint64_t before_cut = second.bytes();
  REQUIRE(before_cut >= kBytes / 16);
  REQUIRE(before_cut < kBytes / 2);
  TransferInfo ended = rig.Finish(id, kBytes);
  CHECK(first.bytes() >= kBytes - before_cut - kNoPayload);
  // Had it begun again, the first wire would have carried an eighth, and then all.
  CHECK(first.bytes() < kBytes + kBytes / 16);
  CHECK(second.bytes() - before_cut < kNoPayload);
  rig.SeeLeft(wires.second);
  CHECK_FALSE(rig.HasLeft(wires.first));
  return ended;
}

}  // namespace

TEST_CASE("without addresses all lanes take the wire over which the nodes are peers") {
  if (const std::string why = Wire::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  Wires wires;
  wires.first.Cut();
  WiresRig rig(wires.second, {});
  const Measured measured = Measure(rig, wires);
  CHECK(measured.by_first < kNoPayload);
  CHECK(measured.by_second >= kBytes);
}

TEST_CASE("two wires carry one transfer at once") {
  if (const std::string why = Wire::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  const auto measure = [](bool both) {
    const Wires wires;
    WiresRig rig(wires.first, both ? wires.AddressesOfWest() : std::vector<std::string>{});
    return Measure(rig, wires);
  };
  const Measured one = measure(false);
  CHECK(one.by_first >= kBytes);
  CHECK(one.by_second < kNoPayload);
  const Measured two = measure(true);
  CHECK(two.by_first >= kBytes / 3);
  CHECK(two.by_second >= kBytes / 3);
  INFO("one wire " << one.seconds << " s, two " << two.seconds << " s");
  CHECK(one.seconds >= 1.9 * two.seconds);
}

TEST_CASE("a wire that is cut mid-transfer is left, and the transfer goes on") {
  if (const std::string why = Wire::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  Wires wires;
  WiresRig rig(wires.first, wires.AddressesOfWest());
  LoseSecond(rig, wires);
}

TEST_CASE("a wire that is cut mid-transfer is left by encrypted lanes, too") {
  if (const std::string why = Wire::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  Authority authority;
  Wires wires;
  WiresRig rig(wires.first, wires.AddressesOfWest(), &authority);
  CHECK(LoseSecond(rig, wires).receipt.encryption.starts_with("TLS 1.3"));
}

TEST_CASE("an address that is silent from the start is left out") {
  if (const std::string why = Wire::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  Wires wires;
  const bool is_first = GENERATE(false, true);
  CAPTURE(is_first);
  Wire& silent = is_first ? wires.first : wires.second;
  const Wire& met = is_first ? wires.second : wires.first;
  silent.Cut();
  WiresRig rig(met, wires.AddressesOfWest());
  const Meter by_silent(silent);
  const Meter by_met(met);
  rig.Copy(kBytes);
  rig.SeeLeft(silent);
  CHECK_FALSE(rig.HasLeft(met));
  CHECK(by_met.bytes() >= kBytes);
  CHECK(by_silent.bytes() < kNoPayload);
}

TEST_CASE("an address that answers again is used again") {
  if (const std::string why = Wire::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  const bool from_the_start = GENERATE(true, false);
  CAPTURE(from_the_start);
  Wires wires;
  if (from_the_start) wires.second.Cut();
  WiresRig rig(wires.first, wires.AddressesOfWest());
  if (from_the_start) {
    rig.Copy(kSmall);
    rig.SeeLeft(wires.second);
  } else {
    LoseSecond(rig, wires);
  }
  wires.second.Mend();
  WaitUntil("the second wire carries payload again", [&] {
    const Meter second(wires.second);
    rig.Copy(kSmall);
    return second.bytes() >= kSmall / 4;
  });
}

TEST_CASE("a slower wire carries its part of a transfer, and a far slower one delays nothing") {
  if (const std::string why = Wire::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  const uint64_t times_slower = GENERATE(4, 32);
  CAPTURE(times_slower);
  const auto measure = [&](bool both) {
    const Wires wires(kMegabits / times_slower);
    WiresRig rig(wires.first, both ? wires.AddressesOfWest() : std::vector<std::string>{});
    rig.Copy(kBytes);  // by which the lanes' rates are known
    return Measure(rig, wires);
  };
  const Measured one = measure(false);
  const Measured both = measure(true);
  INFO("the fast wire " << one.seconds << " s, both " << both.seconds << " s");
  if (times_slower == 4) {
    CHECK(both.by_second >= kBytes / 8);
    CHECK(one.seconds >= 1.1 * both.seconds);
  } else {
    CHECK(both.seconds <= 1.1 * one.seconds);
  }
}

TEST_CASE("a node that is called at two addresses goes on when the wire of calls is cut") {
  if (const std::string why = Wire::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  const bool encrypted = GENERATE(false, true);
  CAPTURE(encrypted);
  Authority authority;
  Wires wires;
  WiresRig rig(wires.first, wires.AddressesOfWest(), encrypted ? &authority : nullptr,
               wires.AddressesOfWest());
  rig.Copy(kSmall);
  const TransferId id = rig.Start(kBytes);
  WaitUntil("a quarter arrives", [&] {
    const TransferInfo now = Must(rig.in_east.GetTransfer(id));
    return now.bytes_done >= kBytes / 4 || onecopy::IsFinal(now.state);
  });
  wires.first.Cut();
  const Meter second(wires.second);
  rig.FinishSomehow(id, kBytes);
  CHECK(second.bytes() >= kBytes / 4);
  // The nodes find each other over the other wire, too, and new transfers work.
  rig.Copy(kSmall);
}

}  // namespace two_wires_test
