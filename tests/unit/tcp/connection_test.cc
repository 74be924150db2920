// A reader's end of a connection, whose owner is the test: what crosses what.
#include "transport/link/tcp/connection.h"

#include <future>
#include <string>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/event.h"
#include "tests/support/link_pair.h"
#include "tests/unit/tcp/far_end.h"

using namespace onecopy;
using namespace onecopy::tcp;
using namespace onecopy::testing;

namespace {

constexpr uint64_t kGetBytes = 100;

// One payload lane, on another thread than the connection's own.
struct ReaderRig {
  os::LoopThread home{"home"};
  os::LoopThread other{"other"};
  FarEnd messages;
  FarEnd payload;
  std::shared_ptr<TcpConnection> connection;
  RemoteKey key = Encode(Key{99, "host"});

  ReaderRig() {
    connection = std::make_shared<TcpConnection>(ReaderOptions(1, false), home.loop());
    connection->AttachLane(0, home.loop(), LaneSocket(messages.TakeNear()), false);
    connection->AttachLane(1, other.loop(), LaneSocket(payload.TakeNear()), false);
  }
  ~ReaderRig() {
    std::promise<void> closed;
    connection->OnClosed([&](const Status&) { closed.set_value(); });
    connection->Close({Code::kCancelled, reasons::kCancelled, "the test is over"});
    closed.get_future().wait();
  }

  // Its memory is the lane's alone: `let_go` when that needs it no more. Returns once it was asked
  // for, and its tag.
  uint64_t Get(ChannelId channel, Event& let_go, std::promise<Status>& ended) {
    auto bytes = std::make_shared<std::vector<std::byte>>(kGetBytes);
    auto region = std::make_shared<Region>(Place{"host", {}}, bytes->data(), kGetBytes, true,
                                           [bytes, &let_go] { let_go.Set(); });
    connection->Get(
        {.channel = channel, .key = &key, .into = {std::move(region), 0, kGetBytes}},
        [&ended](Status status, const StepList&, unsigned) { ended.set_value(std::move(status)); });
    const FrameHeader asked = payload.HearHeader();
    REQUIRE(asked.kind == FrameKind::kGet);
    return asked.tag;
  }
  // All of it, and its end.
  void Answer(uint64_t tag, uint64_t flags) {
    payload.Say(Text({FrameKind::kData, tag, 0, 0, kGetBytes}, std::string(kGetBytes, 'x')) +
                Text({FrameKind::kEnd, tag, flags}));
  }
};

}  // namespace

TEST_CASE("a get that was cancelled before its end was heard of waits for no report") {
  Event first_let_go;
  Event second_let_go;
  std::promise<Status> first_ended;
  std::promise<Status> second_ended;
  ReaderRig rig;
  const uint64_t first = rig.Get(1, first_let_go, first_ended);
  const uint64_t second = rig.Get(2, second_let_go, second_ended);
  std::promise<void> go_on;
  rig.home.loop().Post([&] { go_on.get_future().wait(); });
  rig.connection->CancelGets(1);  // next at home
  rig.Answer(first, kReportFollows);
  rig.Answer(second, 0);
  // Answers are taken in order: that the first one's end has come waits at home by now, too.
  second_let_go.Wait();
  go_on.set_value();
  CHECK(second_ended.get_future().get().ok());
  // Behind whatever home has made of it. A get that waits for this would succeed by it.
  rig.messages.Say(Text({FrameKind::kReport, first, kCopied}));
  CHECK(first_ended.get_future().get().code() == Code::kCancelled);
  first_let_go.Wait();
  CHECK_FALSE(rig.connection->closed());
}
