// One end of a lane, whose other end is the test: frame by frame.
#include "transport/link/tcp/lane.h"

#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <map>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/memory.h"
#include "tests/unit/tcp/far_end.h"
#include "transport/core/contracts/link.h"

using namespace onecopy;
using namespace onecopy::tcp;
using namespace onecopy::testing;

namespace {

constexpr uint64_t kExportedBytes = 64 * 1024;

std::string TextOf(const Span& span) {
  return {reinterpret_cast<const char*>(span.address()), span.bytes};
}

// What the lane has told, to be looked at once it was awaited.
class Owner final : public LaneOwner {
 public:
  explicit Owner(os::EventLoop& loop) : exports_(loop) {}

  void GetEnded(unsigned, uint64_t tag, Status status, bool report) override {
    ended.emplace(tag, std::move(status));
    report_follows = report;
    Tell(ended.size());
  }
  void GetAbandoned(unsigned, uint64_t tag) override { abandoned.push_back(tag); }
  void Discarded(unsigned, uint64_t bytes) override {
    discarded += bytes;
    Tell(discarded);
  }
  void MessageArrived(uint64_t channel, std::span<const std::byte> message) override {
    messages.emplace_back(
        channel, std::string(reinterpret_cast<const char*>(message.data()), message.size()));
    Tell(messages.size());
  }
  void BodySent(uint64_t tag, bool copied) override { sent[tag] = copied; }
  void ReportArrived(uint64_t tag, bool copied) override {
    reported[tag] = copied;
    Tell(reported.size());
  }
  void LaneFailed(std::shared_ptr<Lane>, Status status) override {
    failure = std::move(status);
    done.release();
  }
  const Exports& exports() const override { return exports_; }
  Exports& exported() { return exports_; }

  size_t wanted = 1;  // gets that end, messages, or bytes thrown away
  std::map<uint64_t, Status> ended;
  bool report_follows = false;
  std::map<uint64_t, bool> sent;      // reports that are due
  std::map<uint64_t, bool> reported;  // that have come
  std::vector<uint64_t> abandoned;
  uint64_t discarded = 0;
  std::vector<std::pair<uint64_t, std::string>> messages;
  Status failure;
  std::binary_semaphore done{0};

 private:
  void Tell(size_t have) {
    if (have == wanted) done.release();
  }

  Exports exports_;
};

struct LaneRig {
  os::LoopThread thread{"lane"};
  FarEnd peer;
  std::shared_ptr<Owner> owner = std::make_shared<Owner>(thread.loop());
  std::shared_ptr<Lane> lane;
  RegionRef into = HostRegion(kExportedBytes);

  LaneRig(unsigned index, bool serves, size_t wanted = 1) {
    lane = std::make_shared<Lane>(index, thread.loop(), LaneSocket(peer.TakeNear()),
                                  ZeroCopyUse::kOff);
    owner->wanted = wanted;
    On([&] { lane->Start(owner, serves); });
  }
  ~LaneRig() {
    On([&] {
      lane->Close({Code::kCancelled, reasons::kCancelled, "the test is over"});
      owner->exported().Clear();
    });
  }

  // Runs it where the lane lives.
  void On(const std::function<void()>& run) { thread.RunSync(run); }
  void Await() { REQUIRE(owner->done.try_acquire_for(std::chrono::minutes(1))); }
  void Say(const std::string& text) { peer.Say(text); }
  std::string Hear(size_t bytes) { return peer.Hear(bytes); }
  FrameHeader HearHeader() { return peer.HearHeader(); }
  void Ask(uint64_t tag, uint64_t bytes, uint64_t at = 0) {
    On([&] { lane->Get({FrameKind::kGet, tag, 99, at, bytes}, {into, at, bytes}); });
  }
};

}  // namespace

TEST_CASE("a get is asked for as it was given, and its bytes land where they belong") {
  LaneRig rig(1, false);
  rig.Ask(7, 100, 4096);
  const FrameHeader asked = rig.HearHeader();
  CHECK(asked.kind == FrameKind::kGet);
  CHECK(asked.tag == 7);
  CHECK(asked.key == 99);
  CHECK(asked.offset == 4096);
  CHECK(asked.bytes == 100);
  const std::string body(100, 'b');
  rig.Say(Text({FrameKind::kData, 7, 0, 0, 100}, body) + Text({FrameKind::kEnd, 7}));
  rig.Await();
  REQUIRE(rig.owner->ended.contains(7));
  CHECK(rig.owner->ended.at(7).ok());
  CHECK_FALSE(rig.owner->report_follows);
  CHECK(TextOf({rig.into, 4096, 100}) == body);
  CHECK(TextOf({rig.into, 0, 4096}) == std::string(4096, '\0'));
  CHECK(TextOf({rig.into, 4196, 4096}) == std::string(4096, '\0'));
}

TEST_CASE("bytes whose owner fails them after they were sent do not count, and the lane goes on") {
  LaneRig rig(1, false, 3);
  for (const uint64_t tag : {1, 2, 3}) rig.Ask(tag, 10, 10 * tag);
  const std::string failure = "GRANT_EXPIRED\nit is over";
  rig.Say(Text({FrameKind::kData, 1, 0, 0, 10}, std::string(10, '1')) +
          Text({FrameKind::kFail, 1, 7, 0, failure.size()}, failure) +
          Text({FrameKind::kFail, 2, 7, 0, failure.size()}, failure) +
          Text({FrameKind::kData, 3, 0, 0, 10}, std::string(10, '3')) +
          Text({FrameKind::kEnd, 3, kReportFollows}));
  rig.Await();
  for (const uint64_t tag : {1, 2}) {
    CHECK(rig.owner->ended.at(tag).code() == Code::kPermissionDenied);
    CHECK(rig.owner->ended.at(tag).reason() == reasons::kGrantExpired);
  }
  CHECK(rig.owner->ended.at(3).ok());
  CHECK(rig.owner->report_follows);
  CHECK(rig.owner->failure.ok());
}

TEST_CASE("memory of a get that is abandoned is let go of at once, and its bytes go nowhere") {
  LaneRig rig(1, false, 10);
  rig.Ask(1, 10);
  const std::weak_ptr<const Region> memory = rig.into;
  rig.into.reset();
  rig.On([&] { rig.lane->Abandon({1}); });
  CHECK(memory.expired());
  CHECK(rig.owner->abandoned == std::vector<uint64_t>{1});
  rig.Say(Text({FrameKind::kData, 1, 0, 0, 10}, std::string(10, 'x')) + Text({FrameKind::kEnd, 1}));
  rig.Await();
  CHECK(rig.owner->discarded == 10);
  CHECK(rig.owner->failure.ok());
}

TEST_CASE("an answer that nobody asked for ends the lane, and the gets with it") {
  struct Case {
    const char* what;
    std::string said;
  };
  const std::string body(10, 'x');
  const std::string data = Text({FrameKind::kData, 1, 0, 0, 10}, body);
  const Case cases[] = {
      {"another tag", Text({FrameKind::kData, 2, 0, 0, 10}, body)},
      {"more bytes", Text({FrameKind::kData, 1, 0, 0, 11}, body + "y")},
      {"fewer bytes", Text({FrameKind::kData, 1, 0, 0, 9}, body.substr(1))},
      {"an unknown flag", data + Text({FrameKind::kEnd, 1, kReportFollows + 1})},
      {"a report beside lane 0", Text({FrameKind::kReport, 1, kCopied})},
      {"an end without data", Text({FrameKind::kEnd, 1})},
      {"data twice", data + data},
      {"a message beside lane 0", Text({FrameKind::kMessage, 1, 0, 0, 10}, body)},
      {"a second hello", Text({FrameKind::kHello, 1, 0, 0, 0})},
      {"no header at all", std::string(kHeaderBytes, 'x')},
      {"an end of the stream", ""},
  };
  for (const Case& one : cases) {
    CAPTURE(one.what);
    LaneRig rig(1, false, 2);  // gets that end, more than there are: only the lane's end is told
    rig.Ask(1, 10);
    if (one.said.empty()) {
      rig.peer.Close();
    } else {
      rig.Say(one.said);
    }
    rig.Await();
    CHECK_FALSE(rig.owner->failure.ok());
    REQUIRE(rig.owner->ended.contains(1));
    CHECK_FALSE(rig.owner->ended.at(1).ok());
  }
}

TEST_CASE("what is exported is sent to who has its key, and nothing beyond it") {
  LaneRig rig(1, true);
  CHECK(rig.HearHeader().kind == FrameKind::kWelcome);
  const RegionRef exported = HostRegion(kExportedBytes);
  Fill({exported, 0, kExportedBytes}, 5);
  uint64_t key = 0;
  rig.On([&] { key = rig.owner->exported().Add({exported, 1024, 2048}); });
  rig.Say(Text({FrameKind::kGet, 8, key, 48, 2000}));
  const std::string answer = rig.Hear(2 * kHeaderBytes + 2000);
  CHECK(answer == Text({FrameKind::kData, 8, 0, 0, 2000}, TextOf({exported, 1024 + 48, 2000})) +
                      Text({FrameKind::kEnd, 8}));
  struct Beyond {
    uint64_t key, offset, bytes;
  };
  for (const Beyond& one : {Beyond{key, 49, 2000}, Beyond{key, 2049, 0}, Beyond{key + 1, 0, 1},
                            Beyond{key, ~uint64_t{0}, 2}, Beyond{0, 0, 1}}) {
    rig.Say(Text({FrameKind::kGet, 9, one.key, one.offset, one.bytes}));
    const FrameHeader refused = rig.HearHeader();
    CHECK(refused.kind == FrameKind::kFail);
    CHECK(refused.tag == 9);
    const std::string body = rig.Hear(refused.bytes);
    const Status status = DecodeFailure(refused.key, std::as_bytes(std::span(body)));
    CHECK(status.code() == Exports::NotOpen().code());
    CHECK(status.message() == Exports::NotOpen().message());
  }
  CHECK(rig.owner->failure.ok());
}

TEST_CASE("what was withdrawn is refused like what never was") {
  LaneRig rig(1, true);
  CHECK(rig.HearHeader().kind == FrameKind::kWelcome);
  const RegionRef exported = HostRegion(kExportedBytes);
  uint64_t key = 0;
  rig.On([&] {
    key = rig.owner->exported().Add({exported, 0, kExportedBytes});
    CHECK_FALSE(rig.owner->exported().Revoke(key, [] {}));
  });
  rig.Say(Text({FrameKind::kGet, 1, key, 0, 1}));
  const FrameHeader refused = rig.HearHeader();
  CHECK(refused.kind == FrameKind::kFail);
  CHECK(static_cast<int>(refused.key) == static_cast<int>(Exports::NotOpen().code()));
}

TEST_CASE("messages arrive whole and in order, and go the same way") {
  LaneRig rig(0, false, 3);
  const std::string longest(Connection::kMaxMessageBytes, 'm');
  rig.Say(Text({FrameKind::kMessage, 5, 0, 0, 3}, "one") + Text({FrameKind::kMessage, 6, 0, 0, 0}));
  // No assertion of the test's while another thread makes one.
  const std::string last = Text({FrameKind::kMessage, 5, 0, 0, longest.size()}, longest);
  ssize_t sent = 0;
  std::thread rest([&] { sent = ::send(rig.peer.fd(), last.data(), last.size(), MSG_NOSIGNAL); });
  rig.Await();
  rest.join();
  CHECK(sent == static_cast<ssize_t>(last.size()));
  REQUIRE(rig.owner->messages.size() == 3);
  CHECK(rig.owner->messages[0] == std::pair<uint64_t, std::string>(5, "one"));
  CHECK(rig.owner->messages[1] == std::pair<uint64_t, std::string>(6, ""));
  CHECK((rig.owner->messages[2].second == longest));
  rig.On([&] {
    rig.lane->SendMessage(9, "first");
    rig.lane->SendMessage(8, "second");
  });
  const std::string expected = Text({FrameKind::kMessage, 9, 0, 0, 5}, "first") +
                               Text({FrameKind::kMessage, 8, 0, 0, 6}, "second");
  CHECK(rig.Hear(expected.size()) == expected);
}

TEST_CASE("lane 0 brings reports about bodies, and takes them there") {
  LaneRig rig(0, false, 2);
  rig.Say(Text({FrameKind::kReport, 7, kCopied}) + Text({FrameKind::kReport, 8}));
  rig.Await();
  CHECK(rig.owner->reported == std::map<uint64_t, bool>{{7, true}, {8, false}});
  rig.On([&] {
    rig.lane->SendReport(3, false);
    rig.lane->SendReport(4, true);
  });
  const std::string expected =
      Text({FrameKind::kReport, 3}) + Text({FrameKind::kReport, 4, kCopied});
  CHECK(rig.Hear(expected.size()) == expected);
  rig.owner->done.try_acquire();
  rig.Say(Text({FrameKind::kReport, 9, kCopied + 1}));
  rig.Await();
  CHECK_FALSE(rig.owner->failure.ok());
}

TEST_CASE("a peer that takes no reports loses its lane before they take much memory") {
  LaneRig rig(0, false);
  rig.On([&] {
    // Nothing is sent before this turn of the loop is over.
    for (uint64_t tag = 0; tag < 1000; ++tag) rig.lane->SendReport(tag, false);
    CHECK(rig.owner->failure.ok());
    for (uint64_t tag = 1000; tag < 100'000; ++tag) rig.lane->SendReport(tag, false);
    CHECK(rig.owner->failure.reason() == reasons::kLinkDown);
  });
}

TEST_CASE("closing a lane ends its gets with the reason, and it hears nothing any more") {
  LaneRig rig(1, false, 2);
  rig.Ask(1, 10);
  rig.Ask(2, 10, 100);
  const Status why(Code::kCancelled, reasons::kCancelled, "enough");
  rig.On([&] { rig.lane->Close(why); });
  REQUIRE(rig.owner->ended.size() == 2);
  for (const auto& [tag, status] : rig.owner->ended) CHECK(status.message() == why.message());
  rig.Hear(2 * kHeaderBytes);  // both were asked for
  char nothing = 0;
  CHECK(::recv(rig.peer.fd(), &nothing, 1, 0) <= 0);
  rig.Ask(3, 10);
  CHECK(rig.owner->ended.size() == 2);
}
