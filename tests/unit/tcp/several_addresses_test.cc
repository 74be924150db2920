// A connection whose lanes go to several addresses: one that ends ends alone. Its owner is the
// test.
#include <array>
#include <future>
#include <map>
#include <string>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/event.h"
#include "tests/support/process.h"
#include "tests/unit/tcp/far_end.h"
#include "transport/link/tcp/connection.h"
#include "transport/link/tcp/lane_load.h"

using namespace onecopy;
using namespace onecopy::tcp;
using namespace onecopy::testing;

namespace several_addresses_test {
namespace {

constexpr uint64_t kGetBytes = 100;

struct SeveralRig {
  os::LoopThread home{"home"};
  os::LoopThread other{"other"};
  FarEnd messages;
  std::array<FarEnd, 2> payload;
  std::shared_ptr<TcpConnection> connection;
  RemoteKey key = Encode(Key{99, "host"});
  Event closed;
  Event lane_ended;

  // Lane 0 is on its connection's thread, as in a daemon, or with lane 2 on the other one.
  explicit SeveralRig(bool messages_apart = false) {
    connection = std::make_shared<TcpConnection>(ReaderOptions(2, true), home.loop());
    connection->OnClosed([this](const Status&) { closed.Set(); });
    home.RunSync([this] {
      connection->OnLaneEnded([this](uint32_t lane, const Status&) {
        if (lane == 2) lane_ended.Set();
      });
    });
    os::LoopThread& with_messages = messages_apart ? other : home;
    connection->AttachLane(0, with_messages.loop(), LaneSocket(messages.TakeNear()), false);
    connection->AttachLane(1, home.loop(), LaneSocket(payload[0].TakeNear()), false);
    connection->AttachLane(2, other.loop(), LaneSocket(payload[1].TakeNear()), false);
  }
  ~SeveralRig() {
    connection->Close({Code::kCancelled, reasons::kCancelled, "the test is over"});
    closed.Wait();
  }

  struct Ended {
    std::promise<std::pair<Status, StepList>> outcome;
    Event let_go;
    std::vector<std::byte> bytes = std::vector<std::byte>(kGetBytes);

    Status Outcome() { return outcome.get_future().get().first; }
  };
  void Get(Ended& ended, int lane = GetRequest::kAnyLane, ChannelId channel = 1) {
    auto region = std::make_shared<Region>(Place{"host", {}}, ended.bytes.data(), kGetBytes, true,
                                           [&ended] { ended.let_go.Set(); });
    connection->Get(
        {.channel = channel, .key = &key, .into = {std::move(region), 0, kGetBytes}, .lane = lane},
        [&ended](Status status, const StepList& steps, unsigned) {
          ended.outcome.set_value({std::move(status), steps});
        });
  }
  // The lane's next question, and its answer.
  uint64_t Asked(size_t lane) {
    const FrameHeader asked = payload[lane].HearHeader();
    REQUIRE(asked.kind == FrameKind::kGet);
    return asked.tag;
  }
  void Answer(size_t lane, uint64_t tag, uint64_t flags = 0) {
    payload[lane].Say(Text({FrameKind::kData, tag, 0, 0, kGetBytes}, std::string(kGetBytes, 'x')) +
                      Text({FrameKind::kEnd, tag, flags}));
  }
};

}  // namespace

TEST_CASE("what a lane was asked for when it ended, another one is asked for") {
  SeveralRig::Ended first;
  SeveralRig::Ended second;
  SeveralRig rig;
  rig.Get(first);
  rig.Get(second);
  rig.Asked(0);
  rig.Asked(1);
  rig.payload[1].Say(Text({FrameKind::kData, 2, 0, 0, kGetBytes}, "some"));
  rig.payload[1].Close();
  const uint64_t again = rig.Asked(0);
  rig.Answer(0, 1);
  rig.Answer(0, again);
  CHECK(first.Outcome().ok());
  CHECK(second.Outcome().ok());
  second.let_go.Wait();
  CHECK(second.bytes == std::vector<std::byte>(kGetBytes, std::byte{'x'}));
  CHECK_FALSE(rig.connection->closed());
  std::promise<std::map<std::string, uint64_t>> evidence;
  rig.connection->Evidence([&](auto counters) {
    evidence.set_value({counters.begin(), counters.end()});
  });
  CHECK(evidence.get_future().get().at("lane 2 ended") == 1);
}

TEST_CASE("a lane that has come back is asked again") {
  SeveralRig::Ended first;
  SeveralRig::Ended second;
  FarEnd back;
  SeveralRig rig;
  rig.payload[1].Close();
  rig.lane_ended.Wait();
  rig.connection->AttachLane(2, rig.other.loop(), LaneSocket(back.TakeNear()), false);
  rig.Get(first, 1);
  const FrameHeader asked = back.HearHeader();
  back.Say(Text({FrameKind::kData, asked.tag, 0, 0, kGetBytes}, std::string(kGetBytes, 'x')) +
           Text({FrameKind::kEnd, asked.tag}));
  CHECK(first.Outcome().ok());
}

TEST_CASE("with the last data lane ends the connection, and with the lane of messages") {
  SeveralRig::Ended waits;
  SeveralRig rig;
  SECTION("data lanes") {
    rig.payload[1].Close();
    rig.lane_ended.Wait();
    rig.Get(waits);
    rig.Asked(0);
    rig.payload[0].Close();
  }
  SECTION("messages") {
    rig.Get(waits);
    rig.messages.Close();
  }
  CHECK(waits.Outcome().reason() == reasons::kLinkDown);
  waits.let_go.Wait();
  rig.closed.Wait();
}

TEST_CASE("gets may be cancelled while the connection ends with its last data lane") {
  SeveralRig::Ended waits;
  SeveralRig rig(true);
  rig.payload[1].Close();
  rig.lane_ended.Wait();
  Event go_on;
  rig.other.loop().Post([&go_on] { go_on.Wait(); });  // so lane 0 does not close
  rig.Get(waits);
  rig.Asked(0);
  rig.payload[0].Close();
  WaitUntil("the connection is ending", [&] { return rig.connection->closed(); });
  rig.connection->CancelGets(1);
  rig.home.RunSync([] {});
  go_on.Set();
  CHECK_FALSE(waits.Outcome().ok());
  waits.let_go.Wait();
}

TEST_CASE("a get that names its lane fails with it, and where it has ended") {
  SeveralRig::Ended named;
  SeveralRig::Ended late;
  SeveralRig rig;
  rig.Get(named, 1);
  rig.Asked(1);
  rig.payload[1].Close();
  CHECK(named.Outcome().reason() == reasons::kLinkDown);
  named.let_go.Wait();
  rig.Get(late, 1);
  CHECK(late.Outcome().reason() == reasons::kLinkDown);
  CHECK_FALSE(rig.connection->closed());
}

TEST_CASE("a get that was cancelled is not asked for again when its lane ends") {
  SeveralRig::Ended first;
  SeveralRig::Ended second;
  SeveralRig::Ended third;
  SeveralRig rig;
  rig.Get(first);
  rig.Get(second, GetRequest::kAnyLane, 2);
  rig.Asked(0);
  rig.Asked(1);
  rig.connection->CancelGets(2);
  CHECK(second.Outcome().code() == Code::kCancelled);
  second.let_go.Wait();
  rig.payload[1].Close();
  rig.lane_ended.Wait();
  rig.Get(third);
  const uint64_t next = rig.Asked(0);
  rig.Answer(0, 1);
  rig.Answer(0, next);
  CHECK(first.Outcome().ok());
  CHECK(third.Outcome().ok());
}

TEST_CASE("what has landed when its lane ends waits for no report, and claims the longer way") {
  SeveralRig::Ended landed;
  SeveralRig rig;
  rig.Get(landed, 1);
  rig.Answer(1, rig.Asked(1), kReportFollows);
  landed.let_go.Wait();
  rig.payload[1].Close();
  const auto [status, steps] = landed.outcome.get_future().get();
  REQUIRE(status.ok());
  CHECK(steps->size() == 3);
}

TEST_CASE("equal lanes take turns, and lanes without room none") {
  LaneLoads loads(3, false);
  std::vector<unsigned> chosen;
  for (int i = 0; i < 4; ++i) {
    chosen.push_back(loads.Choose(100, [](unsigned lane) { return lane != 2; }));
    loads.Asked(chosen.back(), 100);
  }
  CHECK(chosen == std::vector<unsigned>{1, 3, 1, 3});
  CHECK(loads[2].gets() == 0);
  // What has less to bring is first, whosever turn it is.
  loads.Brought(3, 100);
  CHECK(loads.Choose(100, [](unsigned lane) { return lane != 2; }) == 3);
  CHECK(loads.Choose(100, [](unsigned) { return false; }) == 0);
  loads.Forget(1);
  CHECK(loads[1].bytes() == 0);
}

TEST_CASE("a lane's rate is known once it has brought enough, and for a while") {
  constexpr uint64_t kMiB = 1 << 20;
  const os::Clock::time_point begin = os::Clock::now();
  const auto at = [&](int milliseconds) { return begin + std::chrono::milliseconds(milliseconds); };
  LaneLoad load;
  load.Asked(kMiB, at(0));
  load.Asked(kMiB, at(0));
  CHECK(load.bytes() == 2 * kMiB);
  load.Brought(kMiB, at(500));
  CHECK(load.RateAt(at(500)) == 0);
  load.Brought(kMiB, at(1000));
  CHECK(load.gets() == 0);
  CHECK(load.RateAt(at(1000)) == 2 * kMiB);
  load.Asked(2 * kMiB, at(5000));  // while it had nothing to do no time passed
  load.Brought(2 * kMiB, at(5500));
  CHECK(load.RateAt(at(5500)) == 3 * kMiB);
  CHECK(load.RateAt(at(16'000)) == 0);
  load.Asked(2 * kMiB, at(16'000));
  load.Asked(kMiB, at(16'000));
  CHECK(load.RateAt(at(16'000)) == 0);
  load.Brought(2 * kMiB, at(17'000));
  CHECK(load.RateAt(at(30'000)) == 2 * kMiB);  // not unknown: the rest is slow to come
}
}  // namespace several_addresses_test
