// What UCX does over RDMA devices: what it reports, and what becomes of peers that are lost.
#include "tests/rdma/ucx_pair.h"
#include "tests/support/catch.h"
#include "tests/support/guest.h"
#include "tests/support/memory.h"

namespace onecopy::testing {
namespace {

std::map<std::string, uint64_t> EvidenceOf(Connection& connection) {
  std::promise<std::map<std::string, uint64_t>> promise;
  connection.Evidence([&](const auto& evidence) {
    promise.set_value({evidence.begin(), evidence.end()});
  });
  return promise.get_future().get();
}

std::future<Status> Closed(Connection& connection) {
  auto promise = std::make_shared<std::promise<Status>>();
  std::future<Status> future = promise->get_future();
  connection.OnClosed([promise](Status why) { promise->set_value(std::move(why)); });
  return future;
}

TEST_CASE("RDMA devices are described as the software that they are") {
  auto pair = MakeUcxPair("rxe0", "rxe*");
  REQUIRE_OK(pair);
  const LinkCapability owner = (*pair)->owner->Describe();
  INFO(owner.viability.detail);
  REQUIRE(owner.viability.viable);
  CHECK(owner.rdma);
  REQUIRE(owner.nics.size() == 1);
  CHECK(owner.nics[0].name == "rxe0");
  CHECK(owner.nics[0].emulated);
  CHECK(owner.attributes.at("protocols_named") == "yes");
  CHECK((*pair)->reader->Describe().nics.size() == 2);
}

TEST_CASE("a get over RDMA is one copy of a software device, through the device, in UCX's words") {
  auto pair = MakeUcxPair("rxe0", "rxe1");
  REQUIRE_OK(pair);
  auto connected = Connect(**pair);
  REQUIRE_OK(connected);
  constexpr uint64_t kBytes = 4 << 20;
  const RegionRef source = HostRegion(kBytes);
  const RegionRef sink = HostRegion(kBytes);
  Fill({source, 0, kBytes}, 4);
  auto key = connected->Export({source, 0, kBytes});
  REQUIRE_OK(key);
  const uint64_t before = RdmaCounters("rxe0").at("sent_pkts");
  const Got got = connected->StartGet({1, &*key, 0, {sink, 0, kBytes}}).get();
  REQUIRE_OK(got.status);
  CHECK(FirstWrong({sink, 0, kBytes}, 4) == kBytes);
  REQUIRE(got.steps->size() == 1);
  const Step& step = got.steps->front();
  CHECK(step.by == "wire");
  CHECK(step.emulated);
  // Packets of at most 4096 bytes.
  CHECK(RdmaCounters("rxe0").at("sent_pkts") - before >= kBytes / 4096);
  CHECK(EvidenceOf(*connected->reader) ==
        std::map<std::string, uint64_t>{{"ucx get: zero-copy rc_verbs/rxe1:1", kBytes}});
  // UCX copies small ones once more, and that is counted.
  const Got small = connected->StartGet({1, &*key, 5, {sink, 0, 10}}).get();
  REQUIRE_OK(small.status);
  CHECK(small.steps->size() == 2);
}

TEST_CASE("gets from a peer that is lost end, and another connection can be made later") {
  auto pair = MakeUcxPair("rxe0", "rxe1");
  REQUIRE_OK(pair);
  constexpr uint64_t kBytes = 16 << 20;
  const RegionRef source = HostRegion(kBytes);
  RegionRef sink = HostRegion(kBytes);
  const std::weak_ptr<Region> watch = sink;
  Fill({source, 0, kBytes}, 6);
  {
    auto connected = Connect(**pair);
    REQUIRE_OK(connected);
    auto key = connected->Export({source, 0, kBytes});
    REQUIRE_OK(key);
    auto reader_closed = Closed(*connected->reader);
    auto owner_closed = Closed(*connected->owner);
    const PacketLoss there("rn0");
    const PacketLoss back("rn1");
    std::vector<std::future<Got>> gets;
    for (uint64_t at = 0; at < kBytes; at += 1 << 20) {
      gets.push_back(connected->StartGet({1, &*key, at, {sink, at, 1 << 20}}));
    }
    sink.reset();
    for (auto& get : gets) CHECK(get.get().status.code() == Code::kUnavailable);
    CHECK(reader_closed.get().code() == Code::kUnavailable);
    CHECK(owner_closed.get().code() == Code::kUnavailable);
    CHECK(watch.expired());
  }
  auto again = Connect(**pair);
  REQUIRE_OK(again);
  auto key = again->Export({source, 0, kBytes});
  REQUIRE_OK(key);
  const RegionRef other = HostRegion(1 << 20);
  REQUIRE_OK(again->StartGet({1, &*key, 7, {other, 0, other->bytes()}}).get().status);
  CHECK(FirstWrong({other, 0, other->bytes()}, 6, 7) == other->bytes());
}

}  // namespace
}  // namespace onecopy::testing
