// Lanes that fail one by one, and are mended.
#include <filesystem>
#include <fstream>
#include <future>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/link_pair.h"
#include "tests/support/memory.h"
#include "tests/support/process.h"
#include "transport/core/toolkit/rdma_settings.h"
#include "transport/link/verbs/factory.h"
#include "transport/link/verbs/offer.h"

namespace lanes_test {

using namespace onecopy;
using namespace onecopy::testing;

namespace {

Result<std::unique_ptr<Link>> Make(const std::string& node, const std::string& device,
                                   const Topology& topology = {}) {
  Backend<Link> backend = verbs::Describe();
  BackendContext context{node, Settings(backend.settings), {}, {}};
  context.rdma = Settings(RdmaSettings());
  context.rdma.Set("devices", std::vector<std::string>{device});
  context.settings.Set("queue_pairs", int64_t{3});
  context.topology = topology;
  return backend.create(context);
}

// The key with what opens the lane to this one exchanged for what opens nothing.
RemoteKey Spoil(const RemoteKey& key, size_t lane) {
  verbs::Key spoilt = *verbs::DecodeKey(key);
  spoilt.lanes.at(lane).rkey ^= 0x5a;
  return verbs::Encode(spoilt);
}

// Of the guest's two devices.
struct GuestPair : LinkPair {
  GuestPair() {
    auto made_owner = Make("owner", "rxe0");
    auto made_reader = Make("reader", "rxe1");
    REQUIRE_OK(made_owner);
    REQUIRE_OK(made_reader);
    owner = std::move(*made_owner);
    reader = std::move(*made_reader);
  }
};

}  // namespace

TEST_CASE("a lane that the device closes is mended, and takes its share again") {
  GuestPair pair;
  auto connected = Connect(pair);
  REQUIRE_OK(connected);
  REQUIRE(connected->reader->lanes().size() == 3);

  const RegionRef source = HostRegion(4 << 20);
  Fill({source, 0, source->bytes()}, 3);
  const RegionRef sink = HostRegion(4 << 20);
  auto key = connected->Export({source, 0, source->bytes()});
  REQUIRE_OK(key);

  for (int lane = 0; lane < 3; ++lane) {
    INFO("lane " << lane);
    const RemoteKey spoilt = Spoil(*key, static_cast<size_t>(lane));
    // Others are under way on all lanes, and must not suffer.
    std::vector<std::future<Got>> others;
    for (uint64_t at = 0; at < source->bytes(); at += 1 << 19) {
      others.push_back(connected->StartGet({1, &*key, at, {sink, at, 1 << 19}}));
    }
    const Got refused = connected->StartGet({2, &spoilt, 0, {sink, 0, 4096}, lane}).get();
    CHECK(refused.status.code() == Code::kPermissionDenied);
    CHECK(refused.status.message().find("remote access") != std::string::npos);
    for (auto& other : others) REQUIRE_OK(other.get().status);
    CHECK(FirstWrong({sink, 0, sink->bytes()}, 3) == sink->bytes());

    // A key that is made after the mending opens the new lane too.
    WaitUntil("the lane carries again", [&] {
      auto fresh = connected->Export({source, 0, source->bytes()});
      REQUIRE_OK(fresh);
      const Got got = connected->StartGet({3, &*fresh, 0, {sink, 0, 4096}, lane}).get();
      RevokeAndWait(*connected->owner, *fresh);
      return got.status.ok();
    });
    key = connected->Export({source, 0, source->bytes()});
    REQUIRE_OK(key);
  }
}

TEST_CASE("a read whose lane fails while the connection closes is not said to have landed") {
  GuestPair pair;
  auto connected = Connect(pair);
  REQUIRE_OK(connected);
  const RegionRef source = HostRegion(4 << 20);
  Fill({source, 0, source->bytes()}, 3);
  const RegionRef sink = HostRegion(4 << 20);
  REQUIRE_OK(pair.reader->Register(sink));
  auto key = connected->Export({source, 0, source->bytes()});
  REQUIRE_OK(key);
  const RemoteKey spoilt = Spoil(*key, 0);
  std::promise<Status> refused;
  std::promise<Status> behind;
  // In one turn: the device refuses the first read, and with it goes what was posted after it, the
  // words of farewell among that.
  connected->reader->executor().Post([&] {
    connected->reader->Get({1, &spoilt, 0, {sink, 0, 4096}, 0},
                           [&](Status status, auto&&...) { refused.set_value(std::move(status)); });
    connected->reader->Get({1, &*key, 0, {sink, 0, sink->bytes()}, 0},
                           [&](Status status, auto&&...) { behind.set_value(std::move(status)); });
    connected->reader->Close({Code::kCancelled, reasons::kCancelled, "enough"});
  });
  CHECK_FALSE(refused.get_future().get().ok());
  CHECK_FALSE(behind.get_future().get().ok());
}

TEST_CASE("connections that end, some with reads under way, leave room for more") {
  GuestPair pair;
  const RegionRef source = HostRegion(1 << 20);
  Fill({source, 0, source->bytes()}, 4);
  const RegionRef sink = HostRegion(1 << 20);
  // Three queue pairs each: more than an endpoint has places for, and each has received messages.
  for (int i = 0; i < 40; ++i) {
    auto connected = Connect(pair);
    REQUIRE_OK(connected);
    auto key = connected->Export({source, 0, source->bytes()});
    REQUIRE_OK(key);
    std::future<Got> last;
    for (uint64_t at = 0; at < source->bytes(); at += 1 << 18) {
      last = connected->StartGet({1, &*key, at, {sink, at, 1 << 18}});
    }
    if (i % 2 == 0) REQUIRE_OK(last.get().status);
    std::promise<void> closed;
    connected->owner->OnClosed([&](const Status&) { closed.set_value(); });
    connected->reader->Close({Code::kCancelled, reasons::kCancelled, "enough"});
    closed.get_future().wait();
  }
  auto connected = Connect(pair);
  REQUIRE_OK(connected);
  auto key = connected->Export({source, 0, source->bytes()});
  REQUIRE_OK(key);
  REQUIRE_OK(connected->StartGet({1, &*key, 0, {sink, 0, sink->bytes()}}).get().status);
  CHECK(FirstWrong({sink, 0, sink->bytes()}, 4) == sink->bytes());
}

TEST_CASE("a link's threads run on the processors near its device, where that is known") {
  Topology topology;
  TopologyDevice nic;
  nic.name = "rxe0";
  nic.cpus = "1";
  const auto near = [&] {
    auto link = Make("owner", "rxe0", topology);
    REQUIRE_OK(link);
    const auto attributes = (*link)->Describe().attributes;
    const auto found = attributes.find("cpus of thread 0");
    std::string seen;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream comm(task.path() / "comm");
      std::string name;
      if (!std::getline(comm, name) || name != "verbs-0") continue;
      std::ifstream status(task.path() / "status");
      for (std::string line; std::getline(status, line);) {
        if (line.starts_with("Cpus_allowed_list:\t")) seen = line.substr(19);
      }
    }
    return std::pair(seen, found == attributes.end() ? std::string() : found->second);
  };
  const std::string all = near().first;
  REQUIRE(all != "1");  // the guest has two
  topology.devices.push_back(nic);
  CHECK(near() == std::pair(all, std::string()));  // on no known node
  topology.devices[0].numa_node = 0;
  CHECK(near() == std::pair(std::string("1"), std::string("1")));
  topology.virtual_machine = true;
  CHECK(near() == std::pair(all, std::string()));
}

TEST_CASE("gets go to the lanes whose rates are said to be higher") {
  GuestPair pair;
  auto connected = Connect(pair);
  REQUIRE_OK(connected);
  const RegionRef source = HostRegion(1 << 20);
  Fill({source, 0, source->bytes()}, 5);
  const RegionRef sink = HostRegion(1 << 20);
  auto key = connected->Export({source, 0, source->bytes()});
  REQUIRE_OK(key);
  // One after the other, so that no lane has work that waits.
  for (unsigned best = 0; best < 3; ++best) {
    std::vector<double> rates(3, 0.5e9);
    rates[best] = 1e9;
    for (int i = 0; i < 5; ++i) {
      const Got got =
          connected->StartGet({1, &*key, 0, {sink, 0, 4096}, GetRequest::kAnyLane, rates}).get();
      REQUIRE_OK(got.status);
      CHECK(got.lane == best);
    }
  }
  // All at once, nearly all on the one that is a hundred times as fast; none on the last resort.
  const std::vector<double> rates = {1e9, 1e7, 0};
  std::vector<std::future<Got>> all;
  for (uint64_t at = 0; at < source->bytes(); at += 1 << 15) {
    all.push_back(
        connected->StartGet({1, &*key, at, {sink, at, 1 << 15}, GetRequest::kAnyLane, rates}));
  }
  size_t fast = 0;
  for (auto& get : all) {
    const Got got = get.get();
    REQUIRE_OK(got.status);
    CHECK(got.lane < 2);
    fast += got.lane == 0 ? 1 : 0;
  }
  CHECK(fast >= all.size() - 1);
  CHECK(FirstWrong({sink, 0, sink->bytes()}, 5) == sink->bytes());
}

TEST_CASE("messages keep their order, each once, while lanes fail") {
  GuestPair pair;
  auto connected = Connect(pair);
  REQUIRE_OK(connected);
  const RegionRef source = HostRegion(4096);
  const RegionRef sink = HostRegion(4096);
  auto key = connected->Export({source, 0, 4096});
  REQUIRE_OK(key);

  constexpr uint32_t kMessages = 400;
  std::vector<uint32_t> arrived;
  std::promise<void> all;
  connected->owner->Listen(9, [&](std::span<const std::byte> bytes) {
    uint32_t number = 0;
    std::memcpy(&number, bytes.data(), sizeof number);
    arrived.push_back(number);
    if (arrived.size() == kMessages) all.set_value();
  });
  for (uint32_t i = 0; i < kMessages; ++i) {
    REQUIRE_OK(connected->reader->Send(9, std::as_bytes(std::span(&i, 1))));
    if (i != kMessages / 3 && i != 2 * kMessages / 3) continue;
    // The first lane that lives carries the messages, and fails while they are on their way.
    const int lane = i < kMessages / 2 ? 0 : 1;
    const RemoteKey spoilt = Spoil(*key, static_cast<size_t>(lane));
    CHECK_FALSE(connected->StartGet({2, &spoilt, 0, {sink, 0, 4096}, lane}).get().status.ok());
  }
  all.get_future().wait();
  connected->owner->Ignore(9);
  REQUIRE(arrived.size() == kMessages);
  for (uint32_t i = 0; i < kMessages; ++i) CHECK(arrived[i] == i);
}

}  // namespace lanes_test
