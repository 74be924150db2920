// How queue pairs are joined and ended, on devices that keep the specification's rules.
#include "onecopy/reasons.h"
#include "tests/support/memory.h"
#include "tests/support/process.h"
#include "tests/unit/verbs/fake_pair.h"
#include "transport/link/verbs/offer.h"

using namespace onecopy;
using namespace onecopy::testing;

namespace {

constexpr uint64_t kBytes = 1 << 16;

// Reads the whole of `source` by any lane, or fails.
Status ReadOnce(const Connected& connected, const RegionRef& source, const RegionRef& sink) {
  ONECOPY_ASSIGN_OR_RETURN(const RemoteKey key, connected.Export({source, 0, source->bytes()}));
  return connected.StartGet({1, &key, 0, {sink, 0, sink->bytes()}}).get().status;
}

struct Buffers {
  Buffers() { Fill({source, 0, kBytes}, 3); }
  bool Arrived() const { return FirstWrong({sink, 0, kBytes}, 3) == kBytes; }
  const RegionRef source = HostRegion(kBytes);
  const RegionRef sink = HostRegion(kBytes);
};

void CheckReads(FakePair& pair) {
  const Buffers memory;
  auto connected = Connect(pair);
  REQUIRE_OK(connected);
  REQUIRE_OK(ReadOnce(*connected, memory.source, memory.sink));
  CHECK(memory.Arrived());
}

fake_verbs::QueuePair Last(const std::string& device) {
  fake_verbs::QueuePair last;
  for (const auto& one : FakeVerbs().QueuePairs()) {
    if (one.device == device) last = one;
  }
  return last;
}

void CloseBoth(const Connected& connected) {
  for (const auto& end : {connected.reader, connected.owner}) {
    std::promise<void> closed;
    end->OnClosed([&](const Status&) { closed.set_value(); });
    end->Close({Code::kCancelled, reasons::kCancelled, "enough"});
    closed.get_future().wait();
  }
}

}  // namespace

TEST_CASE("bytes and messages move over the fake devices") {
  PlantTwo();
  FakePair pair;
  CheckReads(pair);
  CHECK(Last("r0").bytes_read == kBytes);
}

TEST_CASE("queue pairs that end give every receive entry back") {
  PlantTwo();
  const bool refused = GENERATE(false, true);
  CAPTURE(refused);
  const Buffers memory;
  {
    FakePair pair;
    // More often than a shared receive queue has entries.
    for (int i = 0; i < 600; ++i) {
      auto connected = Connect(pair);
      REQUIRE_OK(connected);
      if (refused) {  // the device itself ends both queue pairs
        auto key = connected->Export({memory.source, 0, kBytes});
        REQUIRE_OK(key);
        verbs::Key spoilt = *verbs::DecodeKey(*key);
        spoilt.lanes.at(0).rkey ^= 0x5a;
        const RemoteKey text = verbs::Encode(spoilt);
        REQUIRE_FALSE(
            connected->StartGet({1, &text, 0, {memory.sink, 0, kBytes}}).get().status.ok());
      }
      CloseBoth(*connected);
    }
    CheckReads(pair);
  }
  CHECK(FakeVerbs().LostReceives() == 0);
  for (const auto& one : FakeVerbs().QueuePairs()) {
    CHECK_FALSE(one.exists);
    CHECK(one.ended_in_order);
  }
}

TEST_CASE("a driver that never tells of a last receive is waited for once") {
  FakeVerbs().Reset();
  for (const char* name : {"o0", "r0"}) {
    fake_verbs::PlantedDevice device;
    device.name = name;
    device.tells_last_receive = false;
    device.ports = {InfiniBandPort(name[0] == 'o' ? 1 : 2)};
    FakeVerbs().Plant(device);
  }
  FakePair pair;
  for (int i = 0; i < 200; ++i) {  // 20 s, if each were waited for
    auto connected = Connect(pair);
    REQUIRE_OK(connected);
    CloseBoth(*connected);
  }
  CheckReads(pair);
  // What such a driver loses cannot be helped; that this counts it shows that the test above would.
  CHECK(FakeVerbs().LostReceives() > 0);
}

TEST_CASE("a path on which nothing is answered ends by its silence") {
  PlantTwo();
  FakePair pair;
  auto connected = Connect(pair);
  REQUIRE_OK(connected);
  std::promise<Status> closed;
  connected->reader->OnClosed([&](const Status& why) { closed.set_value(why); });
  // From now on the devices try for ever.
  FakeVerbs().Swallow("r0");
  FakeVerbs().Swallow("o0");
  const Status why = closed.get_future().get();
  CHECK(why.reason() == reasons::kLinkDown);
  INFO(why.message());
  CHECK(why.message().find("has not answered over r0") != std::string::npos);
}

TEST_CASE("a connection that nobody uses stays") {
  PlantTwo();
  FakePair pair;
  const Buffers memory;
  auto connected = Connect(pair);
  REQUIRE_OK(connected);
  const auto pings = [] { return Last("o0").sends + Last("r0").sends; };
  const uint64_t before = pings();
  WaitUntil("both ends have asked a few times", [&] { return pings() > before + 6; });
  REQUIRE_OK(ReadOnce(*connected, memory.source, memory.sink));
  CHECK(FakeVerbs().QueuePairs().size() == 2);
}

TEST_CASE("reads in flight are what both ends allow, retries what is set, and frames inline") {
  FakeVerbs().Reset();
  fake_verbs::PlantedDevice device;
  device.name = "o0";
  device.reads_in = 4;
  device.most_inline = 0;
  device.ports = {InfiniBandPort(1)};
  FakeVerbs().Plant(device);
  device.name = "r0";
  device.reads_out = 9;
  device.most_inline = 64;
  device.ports = {InfiniBandPort(2)};
  FakeVerbs().Plant(device);
  FakePair pair;
  CheckReads(pair);
  CHECK(Last("o0").addressed.max_dest_rd_atomic == 4);
  CHECK(Last("r0").started.max_rd_atomic == 4);
  CHECK(Last("r0").addressed.max_dest_rd_atomic == 0);  // nobody reads the reader
  for (const char* name : {"o0", "r0"}) {
    CHECK(Last(name).started.timeout == 14);
    CHECK(Last(name).started.retry_cnt == 6);
    CHECK(Last(name).started.rnr_retry == 6);
    CHECK(Last(name).addressed.min_rnr_timer == 20);
  }
  CHECK(Last("o0").sent_inline == 0);  // that device has none
  CHECK(Last("r0").sent_inline > 0);
}

TEST_CASE("a device without reads is refused, with the reason") {
  FakeVerbs().Reset();
  fake_verbs::PlantedDevice device;
  device.name = "o0";
  device.reads_in = 0;
  device.ports = {InfiniBandPort(1)};
  FakeVerbs().Plant(device);
  const auto link = FakeLink("owner", {"o*"});
  const LinkCapability verbs = link->Describe();
  CHECK_FALSE(verbs.viability.viable);
  CHECK(verbs.viability.detail.find("o0 does not support RDMA READ") != std::string::npos);
  link->Shutdown();
}

TEST_CASE("a port that asks for addresses of the whole fabric gets them, at both ends") {
  FakeVerbs().Reset();
  fake_verbs::PlantedPort virtual_function = InfiniBandPort(1);
  virtual_function.needs_grh = true;
  const bool of_owner = GENERATE(true, false);
  PlantDevice("o0", {of_owner ? virtual_function : InfiniBandPort(1)});
  PlantDevice("r0", {of_owner ? InfiniBandPort(2) : virtual_function});
  FakePair pair;
  CheckReads(pair);
  CHECK(Last("o0").addressed.ah_attr.is_global == 1);
  CHECK(Last("r0").addressed.ah_attr.is_global == 1);
}

TEST_CASE("within a subnet that is not asked for, packets go without them") {
  PlantTwo();
  FakePair pair;
  CheckReads(pair);
  CHECK(Last("o0").addressed.ah_attr.is_global == 0);
  CHECK(Last("r0").addressed.ah_attr.is_global == 0);
}

TEST_CASE("of a port's two entries for one partition the full member's is used") {
  FakeVerbs().Reset();
  for (const char* name : {"o0", "r0"}) {
    fake_verbs::PlantedPort port = InfiniBandPort(name[0] == 'o' ? 1 : 2);
    port.pkeys = {0x7fff, 0x8001, 0xffff};
    PlantDevice(name, {port});
  }
  FakePair pair;
  CheckReads(pair);  // two limited members do not reach each other
}

TEST_CASE("a limited member reaches a full one") {
  FakeVerbs().Reset();
  fake_verbs::PlantedPort limited = InfiniBandPort(1);
  limited.pkeys = {0x7fff};
  PlantDevice("o0", {limited});
  PlantDevice("r0", {InfiniBandPort(2)});
  FakePair pair;
  CheckReads(pair);
}

TEST_CASE("RoCE v2 works over IPv6, and the owner takes the kind of address that the reader has") {
  FakeVerbs().Reset();
  const auto [owners, readers] =
      GENERATE(std::pair(std::vector{Ipv6Gid(1)}, std::vector{Ipv6Gid(2)}),
               std::pair(std::vector{Ipv4Gid(1), Ipv6Gid(1)}, std::vector{Ipv6Gid(2)}),
               std::pair(std::vector{Ipv6Gid(1), Ipv4Gid(1)}, std::vector{Ipv6Gid(2), Ipv4Gid(2)}));
  PlantDevice("o0", {RocePort(owners)});
  PlantDevice("r0", {RocePort(readers)});
  FakePair pair;
  CheckReads(pair);
  CHECK(Last("r0").addressed.ah_attr.grh.hop_limit > 1);  // across routers
}

TEST_CASE("ports whose addresses are of two kinds are told from others") {
  FakeVerbs().Reset();
  PlantDevice("o0", {RocePort({Ipv6Gid(1)})});
  PlantDevice("r0", {RocePort({Ipv4Gid(2)})});
  FakePair pair;
  const auto connected = Connect(pair);
  REQUIRE_FALSE(connected.ok());
  CHECK(connected.status().reason() == reasons::kNicUnreachable);
  CHECK(connected.status().message().find("none of IPv4") != std::string::npos);
}

TEST_CASE("a device may have more than eight ports, and a node more than eight devices") {
  FakeVerbs().Reset();
  uint8_t number = 1;
  for (const char side : {'o', 'r'}) {
    std::vector<fake_verbs::PlantedPort> ports;
    for (int i = 0; i < 12; ++i) ports.push_back(InfiniBandPort(number++, i));
    PlantDevice(std::string(1, side) + "0", ports);
    for (int i = 1; i <= 9; ++i) {
      PlantDevice(side + std::to_string(i), {InfiniBandPort(number++, 100 + i)});
    }
  }
  FakePair pair;
  auto connected = Connect(pair);
  REQUIRE_OK(connected);
  REQUIRE(connected->reader->lanes().size() == 21);
}

TEST_CASE("two fabrics that look alike are told from each other by what reaches what") {
  FakeVerbs().Reset();
  // The first port of either node is on the fabric of the other's second one.
  PlantDevice("o0", {InfiniBandPort(1, 0)});
  PlantDevice("o1", {InfiniBandPort(2, 1)});
  PlantDevice("r0", {InfiniBandPort(3, 1)});
  PlantDevice("r1", {InfiniBandPort(4, 0)});
  FakePair pair;
  Status last;
  WaitUntil("a later attempt pairs them otherwise", [&] {
    auto connected = Connect(pair);
    last = connected.status();
    return connected.ok();
  });
  REQUIRE_OK(last);
  CheckReads(pair);
}

TEST_CASE("a lane whose port loses its address fails and is mended by the new one") {
  FakeVerbs().Reset();
  PlantDevice("o0", {RocePort({Ipv4Gid(1)})});
  PlantDevice("o1", {RocePort({Ipv4Gid(3)})});
  PlantDevice("r0", {RocePort({Ipv4Gid(2)})});
  PlantDevice("r1", {RocePort({Ipv4Gid(4)})});
  FakePair pair;
  auto connected = Connect(pair);
  REQUIRE_OK(connected);
  const uint32_t before = Last("o0").number;
  SECTION("of the owner's") {
    FakeVerbs().Change("o0", 0, RocePort({fake_verbs::Gid{}, Ipv4Gid(9)}), IBV_EVENT_GID_CHANGE);
  }
  SECTION("of the reader's") {
    FakeVerbs().Change("r0", 0, RocePort({fake_verbs::Gid{}, Ipv4Gid(9)}), IBV_EVENT_GID_CHANGE);
  }
  const Buffers memory;
  WaitUntil("the lane carries again", [&] {
    if (Last("o0").number == before) return false;
    auto key = connected->Export({memory.source, 0, kBytes});
    REQUIRE_OK(key);
    for (int lane = 0; lane < 2; ++lane) {
      const Got got = connected->StartGet({1, &*key, 0, {memory.sink, 0, kBytes}, lane}).get();
      if (!got.status.ok()) return false;
    }
    return true;
  });
  CHECK(memory.Arrived());
}

TEST_CASE("a lane stays while its port gets another address beside its own") {
  FakeVerbs().Reset();
  PlantDevice("o0", {RocePort({Ipv6Gid(1)})});
  PlantDevice("r0", {RocePort({Ipv6Gid(2)})});
  FakePair pair;
  std::promise<void> noticed;
  pair.owner->OnChange([&] { noticed.set_value(); });
  auto connected = Connect(pair);
  REQUIRE_OK(connected);
  FakeVerbs().Change("o0", 0, RocePort({Ipv6Gid(1), Ipv4Gid(1)}), IBV_EVENT_GID_CHANGE);
  noticed.get_future().wait();
  CHECK((*pair.owner).Describe().nics.at(0).address == "10.0.0.1");
  const Buffers memory;
  REQUIRE_OK(ReadOnce(*connected, memory.source, memory.sink));
  CHECK(FakeVerbs().QueuePairs().size() == 2);
}
