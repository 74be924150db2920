// What a channel keeps of a peer that says more than anybody wants.
#include "daemon/pipeline/channel.h"

#include <vector>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/quiet_connection.h"
#include "transport/os/threads/event_loop.h"

using namespace onecopy;
using pipeline::Channel;
using pipeline::FailedMessage;
using pipeline::FullMessage;
using pipeline::Message;
using pipeline::WaitingMessage;

namespace {

constexpr ChannelId kSubject = 7;

// A connection on which the test is the peer.
class Spoken final : public testing::QuietConnection<Spoken> {
 public:
  explicit Spoken(os::EventLoop& loop) : QuietConnection(loop, "spoken", "east") {}

  void Hear(const Message& message) {
    for (const std::string& text : pipeline::Split(pipeline::Encode(message))) {
      Deliver(kSubject, std::as_bytes(std::span(text)));
    }
  }

 private:
  friend class LinkConnection;
  void StartGet(const GetRequest&, const GetDone&) {}
  void CancelNow(ChannelId) {}
  void SendNow(ChannelId, const std::string&) {}
  void Shut(const Status& why, bool) {
    if (BeginEnd(why)) End();
  }
};

struct ChannelRig {
  os::LoopThread thread{"home"};
  std::shared_ptr<Spoken> connection = std::make_shared<Spoken>(thread.loop());
  std::vector<Message> controlled;
  std::vector<Message> heard;

  std::unique_ptr<Channel> Make(size_t most_waiting_bytes) {
    return std::make_unique<Channel>(
        connection, kSubject, [this](const Message& message) { controlled.push_back(message); },
        most_waiting_bytes);
  }
  void Listen(Channel& channel) {
    channel.SetHandler([this](const Message& message) { heard.push_back(message); });
  }
  void Full(uint32_t index, size_t key_bytes) {
    connection->Hear(FullMessage{index, 0, 4096, std::string(key_bytes, 'k')});
  }
};

size_t FailuresIn(const std::vector<Message>& messages) {
  size_t count = 0;
  for (const Message& message : messages) {
    count += std::holds_alternative<FailedMessage>(message) ? 1 : 0;
  }
  return count;
}

}  // namespace

TEST_CASE("messages that come before somebody wants them wait in their order") {
  ChannelRig rig;
  const auto channel = rig.Make(1 << 20);
  for (uint32_t i = 0; i < 100; ++i) rig.Full(i, 100);
  rig.connection->Hear(WaitingMessage{});
  rig.Listen(*channel);
  rig.Full(100, 100);
  REQUIRE(rig.heard.size() == 101);
  for (uint32_t i = 0; i <= 100; ++i) {
    CHECK(std::get<FullMessage>(rig.heard[i]).index == i);
  }
  CHECK(rig.controlled.size() == 1);
}

TEST_CASE("a peer that says more than may wait has failed and the rest is not kept") {
  ChannelRig rig;
  const auto channel = rig.Make(200'000);
  for (uint32_t i = 0; i < 1000; ++i) rig.Full(i, 60'000);
  CHECK(FailuresIn(rig.controlled) == 1);
  rig.Listen(*channel);
  CHECK(rig.heard.size() <= 5);
  CHECK(FailuresIn(rig.heard) == 1);
  // Whatever it says then.
  rig.Full(7, 10);
  CHECK(FailuresIn(rig.heard) == 1);
}

TEST_CASE("where nothing may come first the first message is one too many") {
  ChannelRig rig;
  const auto channel = rig.Make(0);
  rig.Full(0, 10);
  rig.Full(1, 10);
  rig.Listen(*channel);
  REQUIRE(rig.heard.size() == 1);
  CHECK(FailuresIn(rig.heard) == 1);
  const auto honest = rig.Make(0);
  rig.Listen(*honest);
  rig.Full(0, 10);
  CHECK(rig.heard.size() == 2);
}

TEST_CASE("messages to others than the handler never count") {
  ChannelRig rig;
  const auto channel = rig.Make(0);
  for (int i = 0; i < 10'000; ++i) rig.connection->Hear(WaitingMessage{});
  CHECK(FailuresIn(rig.controlled) == 0);
  CHECK(rig.controlled.size() == 10'000);
}
