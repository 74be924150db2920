// The first exchange on a socket of the tcp link, with ends that say what they should and ends that
// do not.
#include "transport/link/tcp/greeting.h"

#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <thread>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"

using namespace onecopy;
using namespace onecopy::tcp;

namespace {

const FrameHeader kSaid{FrameKind::kHello, 3, 0x1234, 0x5678, 0};

// How an exchange ended. The loop is stopped with it.
struct Exchange {
  os::EventLoop loop;
  int ended = 0;
  Result<FrameHeader> heard = Status(Code::kUnknown, {}, "nothing was heard yet");
  LaneSocket socket;

  Greeting::Done Done() {
    return [this](Result<FrameHeader> outcome, LaneSocket given) {
      ++ended;
      heard = std::move(outcome);
      socket = std::move(given);
      loop.Stop();
    };
  }
};

// An end that was accepted, and the one who speaks to it.
struct Accepted : Exchange {
  os::UniqueFd peer;
  std::weak_ptr<Greeting> greeting;

  Accepted() {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    peer = os::UniqueFd(ends[1]);
    greeting = Greeting::Await(loop, LaneSocket(os::UniqueFd(ends[0])), {}, Done());
    CHECK(ended == 0);  // never inside the call
  }

  void Say(std::span<const std::byte> bytes) {
    REQUIRE(::send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }
};

bool Same(const FrameHeader& a, const FrameHeader& b) { return Encode(a) == Encode(b); }

}  // namespace

TEST_CASE("a greeting that comes in pieces is heard whole, and the socket is given on") {
  for (const size_t first : {size_t{1}, size_t{4}, kHeaderBytes - 1, kHeaderBytes}) {
    CAPTURE(first);
    Accepted accepted;
    const HeaderBytes bytes = Encode(kSaid);
    const std::span<const std::byte> all(bytes);
    accepted.Say(all.first(first));
    if (first < kHeaderBytes) {
      // Once what was said has been read, the rest comes.
      accepted.loop.Post([&] { accepted.loop.Post([&] { accepted.Say(all.subspan(first)); }); });
    }
    accepted.loop.Run();
    REQUIRE_OK(accepted.heard);
    CHECK(Same(*accepted.heard, kSaid));
    CHECK(accepted.socket);
    CHECK(accepted.ended == 1);
  }
}

TEST_CASE("only the greeting is read: what follows it is the lane's") {
  Accepted accepted;
  accepted.Say(Encode(kSaid));
  const std::string next = "next";
  accepted.Say(std::as_bytes(std::span(next)));
  accepted.loop.Run();
  REQUIRE_OK(accepted.heard);
  char rest[16];
  CHECK(::recv(accepted.socket.fd(), rest, sizeof rest, MSG_DONTWAIT) ==
        static_cast<ssize_t>(next.size()));
}

TEST_CASE("bytes that are no header end the exchange as such") {
  Accepted accepted;
  const std::string http = "GET / HTTP/1.1\r\nHost: some-web-server.example\r\n\r\n";
  accepted.Say(std::as_bytes(std::span(http)));
  accepted.loop.Run();
  CHECK(accepted.heard.status().code() == Code::kInvalidArgument);
  CHECK(accepted.heard.status().reason() == reasons::kBadArgument);
}

TEST_CASE("a peer that closes before it has said all is gone") {
  for (const size_t said : {size_t{0}, kHeaderBytes - 1}) {
    Accepted accepted;
    const HeaderBytes bytes = Encode(kSaid);
    if (said > 0) accepted.Say(std::span(bytes).first(said));
    accepted.peer.Reset();
    accepted.loop.Run();
    CHECK(accepted.heard.status().code() == Code::kUnavailable);
    CHECK(accepted.heard.status().reason() == reasons::kLinkDown);
  }
}

TEST_CASE("an exchange that is given up ends once, with the reason why") {
  Accepted accepted;
  const Status why(Code::kCancelled, reasons::kCancelled, "nobody wants it any more");
  accepted.loop.Post([&] {
    const std::shared_ptr<Greeting> greeting = accepted.greeting.lock();
    REQUIRE(greeting != nullptr);
    greeting->GiveUp(why);
    greeting->GiveUp({Code::kUnknown, {}, "a second time"});
    CHECK(accepted.ended == 1);
  });
  accepted.loop.Run();
  CHECK(accepted.heard.status().message() == why.message());
  CHECK(accepted.ended == 1);
}

TEST_CASE("who connects greets first, and hears the answer") {
  auto listening = os::ListenTcp({"127.0.0.1", 0}, 1);
  REQUIRE_OK(listening);
  auto where = os::LocalAddress(listening->get());
  REQUIRE_OK(where);
  Exchange reader;
  Greeting::Offer(reader.loop, *where, kSaid, std::nullopt, reader.Done());
  CHECK(reader.ended == 0);
  const FrameHeader answer{FrameKind::kWelcome, 3, 0, 0, 0};
  Exchange owner;
  std::thread accepts([&] {
    pollfd calls{listening->get(), POLLIN, 0};
    ::poll(&calls, 1, -1);
    const int accepted = ::accept4(calls.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    Greeting::Await(owner.loop, LaneSocket(os::UniqueFd(accepted)), {}, owner.Done());
    owner.loop.Run();
    const HeaderBytes bytes = Encode(answer);
    (void)::send(owner.socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  });
  reader.loop.Run();
  accepts.join();
  REQUIRE_OK(owner.heard);
  CHECK(Same(*owner.heard, kSaid));
  REQUIRE_OK(reader.heard);
  CHECK(Same(*reader.heard, answer));
}

TEST_CASE("where nobody listens, nobody is greeted") {
  os::HostPort where;
  {
    auto listening = os::ListenTcp({"127.0.0.1", 0}, 1);
    REQUIRE_OK(listening);
    auto bound = os::LocalAddress(listening->get());
    REQUIRE_OK(bound);
    where = *bound;
  }
  Exchange reader;
  Greeting::Offer(reader.loop, where, kSaid, std::nullopt, reader.Done());
  reader.loop.Run();
  CHECK(reader.heard.status().code() == Code::kUnavailable);
  CHECK_FALSE(reader.socket.encrypted());
}
