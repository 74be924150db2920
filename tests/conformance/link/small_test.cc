// Small copies over a link: gets of this side's, and of the other side's when it is told to.
#include <algorithm>
#include <thread>

#include "daemon/pipeline/get_reader.h"
#include "daemon/pipeline/small_gets.h"
#include "daemon/pipeline/small_pushes.h"
#include "daemon/pipeline/small_server.h"
#include "daemon/pipeline/sum_server.h"
#include "tests/conformance/link/links.h"
#include "tests/support/catch.h"
#include "tests/support/memory.h"
#include "transport/digest/tree.h"

using namespace onecopy;
using namespace onecopy::testing;
using namespace onecopy::pipeline;

namespace {

constexpr uint64_t kBytes = 64 * 1024;
constexpr uint64_t kBegin = 4096;  // of what is opened, in the source
constexpr ChannelId kSmallChannel = 7;
constexpr ChannelId kSumsChannel = 8;
constexpr uint64_t kMostSummed = 4096;

// A source of which all but the beginning is open to the reader, and memory for it.
struct Ends {
  std::unique_ptr<LinkPair> pair;
  Connected connected;
  RegionRef source = HostRegion(kBytes);
  RegionRef sink = HostRegion(kBytes);
  RemoteKey key;
  std::promise<Status> failure;

  explicit Ends(const LinkUnderTest& link) {
    auto made = link.make();
    REQUIRE_OK(made);
    pair = std::move(*made);
    auto both = Connect(*pair);
    REQUIRE_OK(both);
    connected = std::move(*both);
    Fill({source, 0, kBytes}, 1);
    auto exported = connected.Export({source, kBegin, kBytes - kBegin});
    REQUIRE_OK(exported);
    key = *exported;
    REQUIRE_OK(pair->reader->Register(sink));
  }

  SmallOutcomes::Failed Failed() {
    return [this](const Status& why) { failure.set_value(why); };
  }
  std::unique_ptr<SmallGets> Gets() {
    return std::make_unique<SmallGets>(
        SmallGets::Source{connected.reader, 1, key, {}, kBegin, nullptr, kSumsChannel}, sink,
        SmallGets::Explain(), Failed());
  }
  std::shared_ptr<SumServer> Sum(uint64_t most_bytes = kMostSummed) {
    return SumServer::Start({.connection = connected.owner,
                             .channel = kSumsChannel,
                             .from = {kBegin, kBytes - kBegin},
                             .most_bytes = most_bytes,
                             .region = source,
                             .base = 0});
  }
  std::shared_ptr<SmallServer> Serve() {
    return SmallServer::Start(
        {connected.reader,
         kSmallChannel,
         {kBegin, kBytes - kBegin},
         {0, kBytes / 2},
         4096,
         std::make_unique<GetReader>(GetReader::Params{
             connected.reader, kSmallChannel, {}, key, kBegin, sink, 0, nullptr})});
  }
  std::unique_ptr<SmallPushes> Pushes() { return Pushes(Failed()); }
  std::unique_ptr<SmallPushes> Pushes(SmallOutcomes::Failed failed) {
    const auto planned = std::make_shared<const std::vector<Step>>(
        1, Step{.node = "reader", .from = "host", .to = "host", .by = "wire"});
    return std::make_unique<SmallPushes>(
        SmallPushes::Params{connected.owner, kSmallChannel, planned, nullptr, true,
                            SummedEnd(source, 0)},
        std::move(failed));
  }
};

Status Move(SmallCopyRoute& route, uint64_t from, uint64_t to, uint64_t bytes) {
  REQUIRE_OK(route.Begin(from, to, bytes));
  const uint64_t mark = route.Mark();
  Status failure;
  while (!route.Reached(mark, &failure)) std::this_thread::yield();
  return failure;
}

// One copy with a checksum.
Result<SmallSum> MoveSummed(SmallCopyRoute& route, uint64_t from, uint64_t to, uint64_t bytes) {
  uint64_t copy = 0;
  REQUIRE_OK(route.BeginSummed(from, to, bytes, &copy));
  const uint64_t mark = route.Mark();
  Status failure;
  while (!route.Reached(mark, &failure)) std::this_thread::yield();
  const Result<SmallSum> sum = route.SumOf(copy);
  if (!failure.ok()) return failure;
  return sum;
}

// The route's checksums are those that libxxhash computes.
void CheckSums(SmallCopyRoute& route, const Ends& ends) {
  REQUIRE(route.sums());
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{100}, kMostSummed}) {
    const Result<SmallSum> sum = MoveSummed(route, kBegin + 3, 8, bytes);
    REQUIRE_OK(sum);
    CHECK(digest::HexOf(*sum) == digest::TreeHexOf(ends.source->address() + kBegin + 3, bytes));
    CHECK(FirstWrong({ends.sink, 8, bytes}, 1, kBegin + 3) == bytes);
  }
  // As many at once as there may be; every third one without a checksum.
  std::vector<uint64_t> copies(SmallCopyRoute::kMaxUnderWay);
  for (uint64_t i = 0; i < copies.size(); ++i) {
    if (i % 3 == 0) {
      REQUIRE_OK(route.Begin(kBegin + i * 16, i * 16, 16));
    } else {
      REQUIRE_OK(route.BeginSummed(kBegin + i * 16, i * 16, 16, &copies[i]));
    }
    if (i % 50 == 0) route.Mark();
  }
  const uint64_t all = route.Mark();
  Status failure;
  while (!route.Reached(all, &failure)) std::this_thread::yield();
  REQUIRE_OK(failure);
  for (uint64_t i = 0; i < copies.size(); ++i) {
    if (i % 3 == 0) continue;
    const Result<SmallSum> sum = route.SumOf(copies[i]);
    REQUIRE_OK(sum);
    REQUIRE(digest::HexOf(*sum) == digest::TreeHexOf(ends.sink->address() + i * 16, 16));
    CHECK(route.SumOf(copies[i]).status().code() == Code::kInternal);  // told once
  }
}

void CheckMoves(SmallCopyRoute& route, const RegionRef& sink) {
  for (uint64_t i = 0; i < 100; ++i) {
    REQUIRE_OK(Move(route, kBegin + i, i * 8, 8));
    REQUIRE(FirstWrong({sink, i * 8, 8}, 1, kBegin + i) == 8);
  }
  // As many at once as there may be, in batches.
  for (uint64_t i = 0; i < SmallCopyRoute::kMaxUnderWay; ++i) {
    REQUIRE_OK(route.Begin(kBegin + i * 16, i * 16, 16));
    if (i % 50 == 0) route.Mark();
  }
  const uint64_t all = route.Mark();
  Status failure;
  while (!route.Reached(all, &failure)) std::this_thread::yield();
  REQUIRE_OK(failure);
  CHECK(FirstWrong({sink, 0, SmallCopyRoute::kMaxUnderWay * 16}, 1, kBegin) ==
        SmallCopyRoute::kMaxUnderWay * 16);
}

}  // namespace

TEST_CASE("small gets move bytes, and end with the right to read") {
  ONECOPY_FOR_EACH_LINK(link);
  Ends ends(link);
  const auto gets = ends.Gets();
  CHECK(gets->steps()->Get() == nullptr);
  CheckMoves(*gets, ends.sink);
  CHECK_FALSE(gets->steps()->Get()->empty());
  RevokeAndWait(*ends.connected.owner, ends.key);
  CHECK_FALSE(Move(*gets, kBegin, 0, 8).ok());
  CHECK_FALSE(ends.failure.get_future().get().ok());
  CHECK_FALSE(Move(*gets, kBegin, 0, 8).ok());
}

TEST_CASE("the other side moves bytes when it is told to, and only those that were agreed on") {
  ONECOPY_FOR_EACH_LINK(link);
  Ends ends(link);
  const auto server = ends.Serve();
  const auto pushes = ends.Pushes();
  CHECK(pushes->steps()->Get()->front().by == "wire");
  CheckMoves(*pushes, ends.sink);
  std::fill_n(ends.sink->address(), kBytes, std::byte{0});
  struct Bad {
    uint64_t from;
    uint64_t to;
    uint64_t bytes;
  };
  for (const Bad& bad :
       {Bad{kBegin - 1, 0, 8}, Bad{kBytes - 4, 0, 8}, Bad{kBegin, kBytes / 2 - 4, 8},
        Bad{kBegin, kBytes / 2, 1}, Bad{UINT64_MAX, 0, 8}, Bad{kBegin, UINT64_MAX, 8},
        Bad{kBegin, 0, 4097}, Bad{kBegin, 0, UINT64_MAX}, Bad{kBegin, 0, 0}}) {
    INFO(bad.from << " " << bad.to << " " << bad.bytes);
    std::promise<Status> failure;
    const auto others = ends.Pushes([&](const Status& why) { failure.set_value(why); });
    CHECK(Move(*others, bad.from, bad.to, bad.bytes).code() == Code::kOutOfRange);
    CHECK(failure.get_future().get().code() == Code::kOutOfRange);
  }
  CHECK(std::all_of(ends.sink->address(), ends.sink->address() + kBytes,
                    [](std::byte b) { return b == std::byte{0}; }));
  std::promise<void> stopped;
  server->Stop({Code::kCancelled, "CANCELLED", "enough"}, [&] { stopped.set_value(); });
  stopped.get_future().wait();
}

TEST_CASE("a side that stops serving says so, once what it had begun has ended") {
  ONECOPY_FOR_EACH_LINK(link);
  Ends ends(link);
  const auto server = ends.Serve();
  const auto pushes = ends.Pushes();
  for (uint64_t i = 0; i < 100; ++i) REQUIRE_OK(pushes->Begin(kBegin, i * 4, 4));
  const uint64_t mark = pushes->Mark();
  const std::weak_ptr<Region> into = ends.sink;
  std::promise<void> stopped;
  for (int i = 0; i < 2; ++i) {
    server->Stop({Code::kAborted, "CANCELLED", "enough"}, [&, i] {
      if (i == 1) stopped.set_value();
    });
  }
  stopped.get_future().wait();
  CHECK(into.use_count() == 1);  // the test's own
  Status failure;
  while (!pushes->Reached(mark, &failure)) std::this_thread::yield();
  CHECK_FALSE(Move(*pushes, kBegin, 0, 4).ok());
  CHECK_FALSE(ends.failure.get_future().get().ok());
}

TEST_CASE("nonsense on the channel of small transfers ends them, on either side") {
  ONECOPY_FOR_EACH_LINK(link);
  Ends ends(link);
  const auto pushes = ends.Pushes();
  SECTION("asked of the side that reads") {
    const auto server = ends.Serve();
    CheckMoves(*pushes, ends.sink);
    const std::string nonsense = GENERATE(std::string(), std::string("x"), std::string(33, 'x'));
    REQUIRE_OK(ends.connected.owner->Send(kSmallChannel, MessageBytes(nonsense)));
    CHECK(ends.failure.get_future().get().code() == Code::kInvalidArgument);
  }
  SECTION("answered to the side that owns") {
    const std::string nonsense = GENERATE(std::string("x"), std::string(11, '\0'),
                                          Encode(Pushed{1, {}}), Encode(Pushed{UINT64_MAX, {}}),
                                          Encode(Pushed{0, {}}) + "more", std::string(12, '\1'));
    REQUIRE_OK(pushes->Begin(kBegin, 0, 8));
    const uint64_t mark = pushes->Mark();
    REQUIRE_OK(ends.connected.reader->Send(kSmallChannel, MessageBytes(nonsense)));
    Status failure;
    while (!pushes->Reached(mark, &failure)) std::this_thread::yield();
    CHECK(failure.code() == Code::kUnavailable);
  }
  CHECK_FALSE(Move(*pushes, kBegin, 0, 8).ok());
}

TEST_CASE("small copies that are given up, or lose their connection, have failed") {
  ONECOPY_FOR_EACH_LINK(link);
  Ends ends(link);
  const auto pushes = ends.Pushes();  // nobody serves
  REQUIRE_OK(pushes->Begin(kBegin, 0, 8));
  const uint64_t mark = pushes->Mark();
  Status failure;
  CHECK_FALSE(pushes->Reached(mark, &failure));
  const bool cancelled = GENERATE(false, true);
  if (cancelled) {
    pushes->Cancel();
    while (!pushes->Reached(mark, &failure)) std::this_thread::yield();
    CHECK(failure.code() == Code::kAborted);
  } else {
    std::promise<void> closed;
    ends.connected.owner->OnClosed([&](const Status&) { closed.set_value(); });
    ends.connected.owner->Close({Code::kUnavailable, "LINK_DOWN", "cut"});
    closed.get_future().wait();
    CHECK(Move(*pushes, kBegin, 0, 8).code() == Code::kUnavailable);
  }
}

TEST_CASE("small copies tell the checksum of both ends, whichever side asks for them") {
  ONECOPY_FOR_EACH_LINK(link);
  Ends ends(link);
  SECTION("the reader") {
    const auto server = ends.Sum();
    const auto gets = ends.Gets();
    CheckSums(*gets, ends);
    const auto held = ends.source.use_count();
    std::promise<long> stopped;
    for (int i = 0; i < 2; ++i) {
      server->Stop([&, i] {
        if (i == 1) stopped.set_value(ends.source.use_count());
      });
    }
    CHECK(stopped.get_future().get() == held - 1);  // what it had of it is gone by then
    // The bytes arrive, but their checksum does not.
    CHECK(MoveSummed(*gets, kBegin, 0, 8).status().code() == Code::kUnavailable);
    CHECK(FirstWrong({ends.sink, 0, 8}, 1, kBegin) == 8);
    CHECK(ends.failure.get_future().get().code() == Code::kUnavailable);
  }
  SECTION("the owner") {
    const auto server = ends.Serve();
    const auto pushes = ends.Pushes();
    CheckSums(*pushes, ends);
    std::promise<void> stopped;
    server->Stop({Code::kCancelled, "CANCELLED", "enough"}, [&] { stopped.set_value(); });
    stopped.get_future().wait();
  }
}

TEST_CASE("a checksum mismatch fails one copy, and the route goes on") {
  ONECOPY_FOR_EACH_LINK(link);
  Ends ends(link);
  const auto server = ends.Serve();
  const auto pushes = ends.Pushes();
  // The owner changes its bytes after it has summed them.
  uint64_t wrong = 0;
  uint64_t right = 0;
  REQUIRE_OK(pushes->BeginSummed(kBegin, 0, 64, &wrong));
  REQUIRE_OK(pushes->BeginSummed(kBegin + 64, 64, 64, &right));
  ends.source->address()[kBegin + 63] ^= std::byte{1};
  const uint64_t mark = pushes->Mark();
  Status failure;
  while (!pushes->Reached(mark, &failure)) std::this_thread::yield();
  REQUIRE_OK(failure);
  CHECK(pushes->SumOf(wrong).status().reason() == "CHECKSUM_MISMATCH");
  REQUIRE_OK(pushes->SumOf(right));
  REQUIRE_OK(MoveSummed(*pushes, kBegin, 0, 64));
  std::promise<void> stopped;
  server->Stop({Code::kCancelled, "CANCELLED", "enough"}, [&] { stopped.set_value(); });
  stopped.get_future().wait();
}

TEST_CASE("memory that was summed is released with its route or its server") {
  ONECOPY_FOR_EACH_LINK(link);
  Ends ends(link);
  const auto before = ends.sink.use_count();
  SECTION("of gets") {
    const auto server = ends.Sum();
    auto gets = ends.Gets();
    REQUIRE_OK(MoveSummed(*gets, kBegin, 0, 8));
    gets->Cancel();  // what that has posted may come later
    gets.reset();
    CHECK(ends.sink.use_count() == before);
  }
  SECTION("of pushes") {
    const auto server = ends.Serve();
    const auto pushes = ends.Pushes();
    uint64_t copies[50];
    for (uint64_t& copy : copies) REQUIRE_OK(pushes->BeginSummed(kBegin, 0, 4096, &copy));
    const uint64_t mark = pushes->Mark();
    std::promise<long> stopped;
    server->Stop({Code::kAborted, "CANCELLED", "enough"},
                 [&] { stopped.set_value(ends.sink.use_count()); });
    CHECK(stopped.get_future().get() == before);
    Status failure;
    while (!pushes->Reached(mark, &failure)) std::this_thread::yield();
  }
}

TEST_CASE("a reader gets checksums only of ranges that were opened to it") {
  ONECOPY_FOR_EACH_LINK(link);
  Ends ends(link);
  const auto server = ends.Sum();
  std::promise<std::string> heard;
  ends.connected.reader->Listen(kSumsChannel, [&](std::span<const std::byte> message) {
    heard.set_value(std::string(reinterpret_cast<const char*>(message.data()), message.size()));
  });
  SECTION("outside") {
    const std::vector<SumAsked> asked = {
        {0, kBegin - 1, 1}, {1, kBytes - 4, 8},      {2, kBegin, 0}, {3, kBegin, kMostSummed + 1},
        {4, UINT64_MAX, 8}, {5, kBegin, UINT64_MAX}, {6, 0, 8}};
    const std::string text = Encode(asked);
    REQUIRE_OK(ends.connected.reader->Send(kSumsChannel, MessageBytes(text)));
    const std::string answer = heard.get_future().get();
    const auto told = DecodeSumTold(MessageBytes(answer));
    REQUIRE(told);
    REQUIRE(told->size() == asked.size());
    for (uint64_t i = 0; i < told->size(); ++i) CHECK((*told)[i] == SumTold{i, {}});
  }
  SECTION("nonsense") {
    const std::string nonsense = GENERATE(std::string("x"), std::string(25, 'x'), std::string());
    REQUIRE_OK(ends.connected.reader->Send(kSumsChannel, MessageBytes(nonsense)));
    const std::string answer = heard.get_future().get();
    CHECK(DecodeSumTold(MessageBytes(answer)) == std::vector<SumTold>{{SumTold::kRest, {}}});
  }
  ends.connected.reader->Ignore(kSumsChannel);
}

TEST_CASE("a reader that floods its source with requests for checksums is cut off") {
  ONECOPY_FOR_EACH_LINK(link);
  Ends ends(link);
  const auto server = ends.Sum(kBytes);
  std::atomic<bool> over{false};
  ends.connected.reader->Listen(kSumsChannel, [&](std::span<const std::byte> message) {
    const auto told = DecodeSumTold(message);
    if (told && told->back() == SumTold{SumTold::kRest, {}}) over = true;
  });
  const SumAsked most{0, kBegin, kBytes - kBegin};
  const std::string flood = Encode(std::vector<SumAsked>(kMaxSums, most));
  while (!over) REQUIRE_OK(ends.connected.reader->Send(kSumsChannel, MessageBytes(flood)));
  ends.connected.reader->Ignore(kSumsChannel);
}

TEST_CASE("a copy fails if the owner answers with nonsense in place of its checksum") {
  ONECOPY_FOR_EACH_LINK(link);
  Ends ends(link);
  const std::string answer =
      GENERATE(std::string("x"), std::string(33, 'x'), Encode(std::vector<SumTold>{{0, {}}}),
               Encode(std::vector<SumTold>{{SumTold::kRest, {}}}),
               // Of none that was asked for, and of that one, twice.
               Encode(std::vector<SumTold>{{5, SmallSum{}}, {0, SmallSum{}}, {0, {}}}));
  ends.connected.owner->Listen(kSumsChannel, [&](std::span<const std::byte>) {
    REQUIRE_OK(ends.connected.owner->Send(kSumsChannel, MessageBytes(answer)));
  });
  const auto gets = ends.Gets();
  const Result<SmallSum> sum = MoveSummed(*gets, kBegin, 0, 8);
  const bool differs = answer.size() == 96;
  CHECK(sum.status().reason() == (differs ? "CHECKSUM_MISMATCH" : "LINK_DOWN"));
  ends.connected.owner->Ignore(kSumsChannel);
}

TEST_CASE("a copy that waits for a checksum ends when its route is cancelled") {
  ONECOPY_FOR_EACH_LINK(link);
  Ends ends(link);
  const auto gets = ends.Gets();  // nobody tells
  uint64_t copy = 0;
  REQUIRE_OK(gets->BeginSummed(kBegin, 0, 8, &copy));
  const uint64_t mark = gets->Mark();
  Status failure;
  // The get has ended, but the copy has not.
  while (gets->steps()->Get() == nullptr) std::this_thread::yield();
  CHECK_FALSE(gets->Reached(mark, &failure));
  gets->Cancel();
  while (!gets->Reached(mark, &failure)) std::this_thread::yield();
  CHECK(failure.code() == Code::kAborted);
}
