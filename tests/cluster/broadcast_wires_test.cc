// A broadcast over wires that are slower than daemons: what it costs its source, and the others.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "onecopy/broadcast.h"
#include "onecopy/reasons.h"
#include "tests/cluster/broadcast_fleet.h"
#include "tests/cluster/pair.h"
#include "tests/support/catch.h"
#include "tests/support/star.h"

namespace broadcast_wires_test {
namespace {

using onecopy::BroadcastCopy;
using onecopy::BroadcastRequest;
using namespace onecopy::testing;

constexpr uint64_t kMegabits = 50;

// Each node on its own machine at a switch.
NodeOptions OptionsAt(const Star& star, size_t machine) {
  NodeOptions options;
  options.config =
      "insecure = true\nuid_domain = \"star\"\n[peering]\nheartbeat = \"500ms\"\n"
      "[peers.\"*\"]\nuid_domain = \"star\"\n";
  options.listen = options.lanes = Star::Address(machine) + ":0";
  options.in_child = star.Inside(machine);
  return options;
}

struct Fleet {
  Fleet(size_t count, uint64_t bytes)
      : star(count, kMegabits), all(count, bytes, [&](size_t i) { return OptionsAt(star, i); }) {}

  Star star;
  BroadcastFleet all;
};

}  // namespace

TEST_CASE(
    "eight nodes get a payload in little more time than one, and their source sends it once") {
  if (const std::string why = Star::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  Fleet fleet(9, uint64_t{24} << 20);
  BroadcastRequest first = fleet.all.Request(8);  // connections between all of them
  first.source.bytes = 4 << 20;
  Must(fleet.all.clients[0].Broadcast(first));
  const auto one = Must(fleet.all.clients[0].Broadcast(fleet.all.Request(1)));
  REQUIRE_OK(one[0].outcome);
  const uint64_t sent_before = fleet.star.BytesSent(0);
  const auto eight = Must(fleet.all.clients[0].Broadcast(fleet.all.Request(8)));
  const uint64_t sent = fleet.star.BytesSent(0) - sent_before;
  double last = 0;
  for (const BroadcastCopy& copy : eight) {
    REQUIRE_OK(copy.outcome);
    last = std::max(last, copy.receipt.seconds);
  }
  const double times = last / one[0].receipt.seconds;
  const double bytes = static_cast<double>(sent) / static_cast<double>(fleet.all.bytes);
  WARN("one node " << one[0].receipt.seconds << " s, eight " << last << " s: " << times
                   << " times; the source sent " << bytes << " times the payload");
  // Eight by themselves would take eight times as long, and a chain that does not begin before the
  // one before has all, as well.
  CHECK(times <= 2);
  CHECK(bytes <= 1.1);
  for (size_t node = 1; node < 9; ++node) CHECK(fleet.all.Has(node));
}

TEST_CASE("a node whose wire is cut holds up none behind it, and gets the rest once it is back") {
  if (const std::string why = Star::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  Fleet fleet(4, uint64_t{24} << 20);
  bool is_cut = false;
  bool is_back = false;
  const uint64_t others = 2 * fleet.all.bytes;
  const auto on_update = [&](uint64_t done, uint64_t) {
    if (!is_cut && done > fleet.all.bytes / 2) {
      fleet.star.Cut(2);
      is_cut = true;
    } else if (is_cut && !is_back && done >= others) {
      // The two others have it: what n2 has had before the cut is more than what they could lack.
      if (!fleet.all.Has(1) || !fleet.all.Has(3)) return;
      fleet.star.Mend(2);
      is_back = true;
    }
  };
  const auto copies = Must(fleet.all.clients[0].Broadcast(fleet.all.Request(3), on_update));
  CHECK(is_back);
  for (const BroadcastCopy& copy : copies) {
    INFO(copy.outcome.ToString());
    CHECK(copy.outcome.ok());
  }
  for (size_t node = 1; node < 4; ++node) CHECK(fleet.all.Has(node));
}

}  // namespace broadcast_wires_test
