// What a get does.
#include <algorithm>
#include <functional>
#include <future>
#include <set>
#include <vector>

#include "tests/conformance/link/links.h"
#include "tests/support/catch.h"
#include "tests/support/memory.h"
#include "tests/support/sanitized.h"

using namespace onecopy;
using namespace onecopy::testing;

namespace {

constexpr ChannelId kChannel = 7;

}  // namespace

TEST_CASE("a get lands exactly the bytes that were asked for") {
  ONECOPY_FOR_EACH_LINK(link);
  auto pair = link.make();
  REQUIRE_OK(pair);
  auto connected = Connect(**pair);
  REQUIRE_OK(connected);

  const RegionRef source = HostRegion(9 << 20);
  Fill({source, 0, source->bytes()}, 1);
  auto key = connected->Export({source, 3, source->bytes() - 3});
  REQUIRE_OK(key);

  for (const uint64_t bytes : {0ULL, 1ULL, 39ULL, 4096ULL, 65537ULL, 9ULL << 20}) {
    const uint64_t offset = bytes >= 9 << 20 ? 0 : 13;
    const uint64_t length = std::min<uint64_t>(bytes, source->bytes() - 3 - offset);
    const RegionRef sink = HostRegion(length + 2);
    Fill({sink, 0, sink->bytes()}, 2);
    const Got got = connected->StartGet({kChannel, &*key, offset, {sink, 1, length}}).get();
    REQUIRE_OK(got.status);
    CHECK(FirstWrong({sink, 1, length}, 1, offset + 3) == length);
    CHECK(sink->address()[0] == PatternAt(0, 2));
    CHECK(sink->address()[length + 1] == PatternAt(length + 1, 2));
  }
}

TEST_CASE("a get reports the steps that it took and the lane that carried it") {
  ONECOPY_FOR_EACH_LINK(link);
  auto pair = link.make();
  REQUIRE_OK(pair);
  auto connected = Connect(**pair);
  REQUIRE_OK(connected);

  const RegionRef source = HostRegion(4096);
  source->SetStepName("pinned");
  const RegionRef sink = HostRegion(4096);
  auto key = connected->Export({source, 0, 4096});
  REQUIRE_OK(key);
  const Got got = connected->StartGet({kChannel, &*key, 0, {sink, 0, 4096}}).get();
  REQUIRE_OK(got.status);
  REQUIRE(got.steps != nullptr);
  REQUIRE_FALSE(got.steps->empty());
  CHECK(got.steps->front().from == "pinned");
  CHECK(got.steps->back().to == "host");
  CHECK(got.steps->back().node == "reader");
  CHECK(std::any_of(got.steps->begin(), got.steps->end(),
                    [](const Step& step) { return step.by == "wire" && step.loopback; }));
  REQUIRE(got.lane < connected->reader->lanes().size());
  CHECK_FALSE(connected->reader->lanes()[got.lane].device.empty());
  CHECK_FALSE(connected->reader->lanes()[got.lane].peer.empty());
}

TEST_CASE("many gets in flight all land, over every lane") {
  ONECOPY_FOR_EACH_LINK(link);
  auto pair = link.make();
  REQUIRE_OK(pair);
  auto connected = Connect(**pair);
  REQUIRE_OK(connected);

  constexpr uint64_t kPiece = 100'003;
  constexpr uint64_t kPieces = 300;
  const RegionRef source = HostRegion(kPiece * kPieces);
  const RegionRef sink = HostRegion(kPiece * kPieces);
  Fill({source, 0, source->bytes()}, 5);
  auto key = connected->Export({source, 0, source->bytes()});
  REQUIRE_OK(key);
  std::vector<std::future<Got>> gets;
  for (uint64_t i = 0; i < kPieces; ++i) {
    gets.push_back(connected->StartGet({kChannel, &*key, i * kPiece, {sink, i * kPiece, kPiece}}));
  }
  std::set<unsigned> lanes;
  for (auto& get : gets) {
    const Got got = get.get();
    REQUIRE_OK(got.status);
    lanes.insert(got.lane);
  }
  CHECK(FirstWrong({sink, 0, sink->bytes()}, 5) == sink->bytes());
  CHECK(lanes.size() == connected->reader->lanes().size());
}

TEST_CASE("nothing but what is exported can be read, and a refusal costs nothing else") {
  ONECOPY_FOR_EACH_LINK(link);
  auto pair = link.make();
  REQUIRE_OK(pair);
  auto connected = Connect(**pair);
  REQUIRE_OK(connected);

  const RegionRef source = HostRegion(1000);
  const RegionRef sink = HostRegion(2000);
  auto key = connected->Export({source, 100, 800});
  REQUIRE_OK(key);
  const RemoteKey guessed = std::string(key->size(), 'x');
  const RemoteKey small_key = "x";
  const GetRequest bad[] = {
      {kChannel, &*key, 0, {sink, 0, 801}},        {kChannel, &*key, 800, {sink, 0, 1}},
      {kChannel, &*key, UINT64_MAX, {sink, 0, 2}}, {kChannel, &guessed, 0, {sink, 0, 1}},
      {kChannel, &small_key, 0, {sink, 0, 1}},
  };
  for (const GetRequest& request : bad) {
    const Got got = connected->StartGet(request).get();
    CHECK_FALSE(got.status.ok());
  }
  CHECK(connected->StartGet({kChannel, &*key, 0, {sink, 0, 800}}).get().status.ok());
}

TEST_CASE("what is withdrawn can no longer be read, and is let go") {
  ONECOPY_FOR_EACH_LINK(link);
  auto pair = link.make();
  REQUIRE_OK(pair);
  auto connected = Connect(**pair);
  REQUIRE_OK(connected);

  RegionRef source = HostRegion(32 << 20);
  const std::weak_ptr<Region> watch = source;
  const RegionRef sink = HostRegion(32 << 20);
  auto key = connected->Export({source, 0, source->bytes()});
  REQUIRE_OK(key);
  source.reset();
  auto first = connected->StartGet({kChannel, &*key, 0, {sink, 0, sink->bytes()}});
  first.wait();
  CHECK_FALSE(watch.expired());
  RevokeAndWait(*connected->owner, *key);
  CHECK(watch.expired());
  CHECK_FALSE(connected->StartGet({kChannel, &*key, 0, {sink, 0, 1}}).get().status.ok());
  RevokeAndWait(*connected->owner, *key);  // a second time is no error
}

TEST_CASE("cancelled gets end once, let their memory go, and leave the connection whole") {
  ONECOPY_FOR_EACH_LINK(link);
  auto pair = link.make();
  REQUIRE_OK(pair);
  auto connected = Connect(**pair);
  REQUIRE_OK(connected);

  const RegionRef source = HostRegion(48 << 20);
  Fill({source, 0, source->bytes()}, 9);
  auto key = connected->Export({source, 0, source->bytes()});
  REQUIRE_OK(key);
  RegionRef sink = HostRegion(source->bytes());
  const std::weak_ptr<Region> watch = sink;
  std::vector<std::future<Got>> gets;
  constexpr uint64_t kPiece = 8 << 20;
  for (uint64_t at = 0; at < source->bytes(); at += kPiece) {
    gets.push_back(connected->StartGet({kChannel, &*key, at, {sink, at, kPiece}}));
  }
  sink.reset();
  connected->reader->CancelGets(kChannel);
  for (auto& get : gets) {
    const Status status = get.get().status;
    CHECK((status.ok() || status.code() == Code::kCancelled));
  }
  // Another channel's get comes after what was thrown away, unharmed.
  const RegionRef other = HostRegion(1 << 20);
  const Got got = connected->StartGet({kChannel + 1, &*key, 77, {other, 0, other->bytes()}}).get();
  REQUIRE_OK(got.status);
  CHECK(FirstWrong({other, 0, other->bytes()}, 9, 77) == other->bytes());
  CHECK(watch.expired());
}

TEST_CASE("what the carrier counted is at least what was got") {
  ONECOPY_FOR_EACH_LINK(link);
  auto pair = link.make();
  REQUIRE_OK(pair);
  auto connected = Connect(**pair);
  REQUIRE_OK(connected);

  const RegionRef source = HostRegion(5 << 20);
  const RegionRef sink = HostRegion(5 << 20);
  auto key = connected->Export({source, 0, source->bytes()});
  REQUIRE_OK(key);
  auto total = [&] {
    std::promise<uint64_t> sum;
    connected->reader->Evidence([&](auto counters) {
      uint64_t bytes = 0;
      for (const auto& [name, count] : counters) bytes += count;
      sum.set_value(bytes);
    });
    return sum.get_future().get();
  };
  const uint64_t before = total();
  REQUIRE_OK(connected->StartGet({kChannel, &*key, 0, {sink, 0, sink->bytes()}}).get().status);
  CHECK(total() - before >= sink->bytes());
}

namespace {

// Gets that are all asked for at once, on the connection's own thread.
class Flood {
 public:
  Flood(const Connected& connected, const RemoteKey& key, RegionRef sink)
      : connected_(connected), key_(key), sink_(std::move(sink)) {
    REQUIRE_OK(connected_.links->reader->Register(sink_));
  }

  void Add(ChannelId channel, uint64_t offset, uint64_t bytes) {
    coordinator_.push_back({channel, offset, bytes});
  }
  // `then` hears of each by its number, as it ends; returns after the last.
  void Run(const std::function<void(size_t, const Status&)>& then) {
    std::promise<void> all;
    size_t left = coordinator_.size();
    connected_.reader->executor().Post([&] {
      for (size_t i = 0; i < coordinator_.size(); ++i) {
        const Params& params = coordinator_[i];
        connected_.reader->Get(
            {params.channel, &key_, params.offset, {sink_, params.offset, params.bytes}},
            [&, i](const Status& status, const StepList&, unsigned) {
              then(i, status);
              if (--left == 0) all.set_value();
            });
      }
    });
    all.get_future().wait();
  }

 private:
  struct Params {
    ChannelId channel = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  const Connected& connected_;
  const RemoteKey& key_;
  const RegionRef sink_;
  std::vector<Params> coordinator_;
};

}  // namespace

TEST_CASE("thousands of gets at once all land, of one channel and of many") {
  ONECOPY_FOR_EACH_LINK(link);
  const bool many = GENERATE(false, true);
  CAPTURE(many);
  auto pair = link.make();
  REQUIRE_OK(pair);
  auto connected = Connect(**pair);
  REQUIRE_OK(connected);
  const uint64_t gets = link.emulated || kAddressSanitizer ? 2'000 : 10'000;
  constexpr uint64_t kPiece = 8192;
  const RegionRef source = HostRegion(gets * kPiece);
  const RegionRef sink = HostRegion(gets * kPiece);
  Fill({source, 0, source->bytes()}, 4);
  auto key = connected->Export({source, 0, source->bytes()});
  REQUIRE_OK(key);
  Flood flood(*connected, *key, sink);
  for (uint64_t i = 0; i < gets; ++i) flood.Add(many ? i : kChannel, i * kPiece, kPiece);
  size_t failed = 0;
  Status failure;
  flood.Run([&](size_t, const Status& status) {
    if (status.ok()) return;
    ++failed;
    failure = status;
  });
  INFO(failure.ToString());
  CHECK(failed == 0);
  CHECK(FirstWrong({sink, 0, sink->bytes()}, 4) == sink->bytes());
}

TEST_CASE("a small get of another channel does not wait behind a bulk of gets") {
  ONECOPY_FOR_EACH_LINK(link);
  auto pair = link.make();
  REQUIRE_OK(pair);
  auto connected = Connect(**pair);
  REQUIRE_OK(connected);
  constexpr uint64_t kPiece = uint64_t{1} << 20;
  constexpr uint64_t kPieces = 192;
  const RegionRef source = HostRegion(kPieces * kPiece);
  const RegionRef sink = HostRegion(kPieces * kPiece);
  auto key = connected->Export({source, 0, source->bytes()});
  REQUIRE_OK(key);
  Flood flood(*connected, *key, sink);
  for (uint64_t i = 0; i < kPieces; ++i) flood.Add(kChannel, i * kPiece, kPiece);
  flood.Add(kChannel + 1, 0, 4096);
  size_t landed = 0;
  size_t before = 0;  // of the bulk, when the small one had landed
  bool well = true;
  flood.Run([&](size_t i, const Status& status) {
    well = well && status.ok();
    if (i == kPieces) before = landed;
    ++landed;
  });
  CHECK(well);
  CHECK(before < kPieces / 2);
}
