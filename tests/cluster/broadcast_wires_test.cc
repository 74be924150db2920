// A broadcast over wires that are slower than daemons: what it costs its source, and the others.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "onecopy/broadcast.h"
#include "onecopy/reasons.h"
#include "tests/cluster/pair.h"
#include "tests/support/catch.h"
#include "tests/support/star.h"

namespace broadcast_wires_test {
namespace {

using onecopy::BroadcastCopy;
using onecopy::BroadcastRequest;
using onecopy::Client;
using onecopy::HostBuffer;
using namespace onecopy::testing;

constexpr uint64_t kMegabits = 50;

// Machines at a switch, a daemon on each: "n0" has the payload in "w".
struct Fleet {
  Fleet(size_t count, uint64_t bytes) : bytes(bytes), star(count, kMegabits) {
    for (size_t i = 0; i < count; ++i) {
      NodeOptions options;
      options.config =
          "insecure = true\nuid_domain = \"star\"\n[peering]\nheartbeat = \"500ms\"\n"
          "[peers.\"*\"]\nuid_domain = \"star\"\n";
      options.listen = options.lanes = Star::Address(i) + ":0";
      options.in_child = star.Inside(i);
      for (const auto& earlier : nodes) options.peers.push_back(earlier->AsPeer());
      nodes.push_back(std::make_unique<Node>("n" + std::to_string(i), options));
    }
    for (const auto& node : nodes) {
      for (const auto& other : nodes) {
        if (other != node) node->WaitForPeer(other->name());
      }
      clients.push_back(node->Connect());
    }
    source.emplace(Filled(clients[0], "w", bytes, 5));
    for (size_t i = 1; i < count; ++i) {
      Must(clients[i].CreateBuffer({.name = "w", .bytes = bytes, .memory = "host"}));
    }
  }

  // From n0 into the first nodes behind it.
  BroadcastRequest To(size_t count) const {
    BroadcastRequest request;
    request.source = {"n0", "w", {}, {}};
    for (size_t i = 1; i <= count; ++i) {
      request.destinations.push_back({nodes[i]->name(), "w", {}, {}});
    }
    return request;
  }
  bool Has(size_t node) const { return Contents(*nodes[node], "w") == Payload(bytes, 5); }

  const uint64_t bytes;
  Star star;
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<Client> clients;
  std::optional<HostBuffer> source;
};

}  // namespace

TEST_CASE(
    "eight nodes get a payload in little more time than one, and their source sends it once") {
  if (const std::string why = Star::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  Fleet fleet(9, uint64_t{24} << 20);
  BroadcastRequest first = fleet.To(8);  // connections between all of them
  first.source.bytes = 4 << 20;
  Must(fleet.clients[0].Broadcast(first));
  const auto one = Must(fleet.clients[0].Broadcast(fleet.To(1)));
  REQUIRE_OK(one[0].outcome);
  const uint64_t sent_before = fleet.star.BytesSent(0);
  const auto eight = Must(fleet.clients[0].Broadcast(fleet.To(8)));
  const uint64_t sent = fleet.star.BytesSent(0) - sent_before;
  double last = 0;
  for (const BroadcastCopy& copy : eight) {
    REQUIRE_OK(copy.outcome);
    last = std::max(last, copy.receipt.seconds);
  }
  const double times = last / one[0].receipt.seconds;
  const double bytes = static_cast<double>(sent) / static_cast<double>(fleet.bytes);
  WARN("one node " << one[0].receipt.seconds << " s, eight " << last << " s: " << times
                   << " times; the source sent " << bytes << " times the payload");
  // Eight by themselves would take eight times as long, and a chain that does not begin before the
  // one before has all, as well.
  CHECK(times <= 2);
  CHECK(bytes <= 1.1);
  for (size_t node = 1; node < 9; ++node) CHECK(fleet.Has(node));
}

TEST_CASE("a node whose wire is cut holds up none behind it, and gets the rest once it is back") {
  if (const std::string why = Star::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  Fleet fleet(4, uint64_t{24} << 20);
  bool is_cut = false;
  bool is_back = false;
  const uint64_t others = 2 * fleet.bytes;
  const auto on_update = [&](uint64_t done, uint64_t) {
    if (!is_cut && done > fleet.bytes / 2) {
      fleet.star.Cut(2);
      is_cut = true;
    } else if (is_cut && !is_back && done >= others) {
      // The two others have it: what n2 has had before the cut is more than what they could lack.
      if (!fleet.Has(1) || !fleet.Has(3)) return;
      fleet.star.Mend(2);
      is_back = true;
    }
  };
  const auto copies = Must(fleet.clients[0].Broadcast(fleet.To(3), on_update));
  CHECK(is_back);
  for (const BroadcastCopy& copy : copies) {
    INFO(copy.outcome.ToString());
    CHECK(copy.outcome.ok());
  }
  for (size_t node = 1; node < 4; ++node) CHECK(fleet.Has(node));
}

}  // namespace broadcast_wires_test
