// What connections of all links have in common: how they end, and how a link ends those it has.
#include <future>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/quiet_connection.h"
#include "transport/core/toolkit/open_connections.h"
#include "transport/os/threads/event_loop.h"

using namespace onecopy;

namespace {

const Status kEnough(Code::kCancelled, reasons::kCancelled, "enough");

// A connection that carries nothing, and ends when it is told that nothing is under way.
class Idle final : public testing::QuietConnection<Idle> {
 public:
  explicit Idle(os::EventLoop& loop) : QuietConnection(loop, "idle", "west") {}

  void LetEnd() {
    InHome([self = shared_from_this()] { self->End(); });
  }

  bool ends_at_once = true;
  std::vector<std::string> sent;  // home
  int shuts = 0;                  // likewise

 private:
  friend class LinkConnection;
  void StartGet(const GetRequest&, GetDone) {}
  void CancelNow(ChannelId) {}
  void SendNow(ChannelId, std::string message) { sent.push_back(std::move(message)); }
  void Shut(const Status& why, bool) {
    ++shuts;
    if (BeginEnd(why) && ends_at_once) End();
  }
};

std::future<Status> ClosedOf(Connection& connection) {
  auto closed = std::make_shared<std::promise<Status>>();
  connection.OnClosed([closed](Status why) { closed->set_value(std::move(why)); });
  return closed->get_future();
}

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

}  // namespace

TEST_CASE("who waits for the end of a connection is told once, with the reason, also afterwards") {
  os::LoopThread thread("home");
  const auto connection = std::make_shared<Idle>(thread.loop());
  auto before = ClosedOf(*connection);
  CHECK_FALSE(connection->closed());
  connection->Close(kEnough);
  CHECK(connection->closed());
  connection->Close({Code::kUnavailable, reasons::kLinkDown, "too late to say why"});
  const Status why = before.get();
  CHECK(why.code() == Code::kCancelled);
  CHECK(why.message().find("node west") != std::string::npos);
  CHECK(why.message().find("enough") != std::string::npos);
  CHECK(ClosedOf(*connection).get().message() == why.message());
}

TEST_CASE("the end is told when nothing is under way any more, and not before") {
  os::LoopThread thread("home");
  const auto connection = std::make_shared<Idle>(thread.loop());
  connection->ends_at_once = false;
  auto closed = ClosedOf(*connection);
  connection->Close(kEnough);
  thread.RunSync([&] { CHECK(connection->shuts == 1); });
  CHECK(closed.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
  connection->LetEnd();
  CHECK_FALSE(closed.get().ok());
}

TEST_CASE("messages go from the connection's thread, none that is too long, none after Close") {
  os::LoopThread thread("home");
  const auto connection = std::make_shared<Idle>(thread.loop());
  REQUIRE_OK(connection->Send(1, Bytes("one")));
  const std::string longest(Connection::kMaxMessageBytes, 'x');
  REQUIRE_OK(connection->Send(1, Bytes(longest)));
  CHECK(connection->Send(1, Bytes(longest + "x")).code() == Code::kInvalidArgument);
  connection->Close(kEnough);
  CHECK(connection->Send(1, Bytes("two")).code() == Code::kUnavailable);
  thread.RunSync([&] { CHECK(connection->sent == std::vector<std::string>{"one", longest}); });
  ClosedOf(*connection).wait();
}

TEST_CASE("a link holds a connection until it has closed, and takes none once it is shut down") {
  os::LoopThread thread("home");
  OpenConnections<Idle> open("idle");
  auto first = std::make_shared<Idle>(thread.loop());
  const auto second = std::make_shared<Idle>(thread.loop());
  REQUIRE_OK(open.Add(first));
  REQUIRE_OK(open.Add(second));
  CHECK(open.All().size() == 2);

  auto closed = ClosedOf(*first);
  const std::weak_ptr<Idle> held = first;
  first.reset();
  REQUIRE_FALSE(held.expired());
  held.lock()->Close(kEnough);
  closed.wait();
  thread.RunSync([] {});  // who closed it has let go of it
  CHECK(held.expired());
  CHECK(open.All().size() == 1);

  CHECK(open.Shutdown());
  CHECK(second->closed());
  thread.RunSync([] {});  // who waits for the end may hear of it before the list does
  CHECK(open.All().empty());
  CHECK_FALSE(open.Shutdown());
  const Status refused = open.Add(std::make_shared<Idle>(thread.loop()));
  CHECK(refused.reason() == reasons::kDraining);
}
