// The reader's dialling of an owner at several addresses. The owner is the test.
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/event.h"
#include "tests/support/process.h"
#include "tests/unit/tcp/far_end.h"
#include "transport/link/tcp/connection.h"
#include "transport/link/tcp/factory.h"
#include "transport/link/tcp/frame.h"
#include "transport/link/tcp/greeting.h"
#include "transport/link/tcp/lane_dialer.h"
#include "transport/os/sockets/acceptor.h"

using namespace onecopy;
using namespace onecopy::tcp;
using namespace onecopy::testing;

namespace lane_dialer_test {
namespace {

// Welcomes each lane at its first address. Those at its second wait until the test lets them in.
class TwoAddresses {
 public:
  TwoAddresses() {
    for (size_t i = 0; i < 2; ++i) {
      auto listener = os::ListenTcp({"127.0.0." + std::to_string(i + 1), 0}, 64);
      REQUIRE_OK(listener);
      addresses_.push_back(*os::LocalAddress(listener->get()));
      thread_.RunSync([&] {
        acceptors_.push_back(std::make_unique<os::Acceptor>(
            thread_.loop(), std::move(*listener),
            [this, i](os::UniqueFd fd) { Connected(i, std::move(fd)); }, [](const Status&) {}));
        REQUIRE_OK(acceptors_.back()->Start());
      });
    }
  }
  ~TwoAddresses() {
    thread_.RunSync([this] { acceptors_.clear(); });
    thread_.StopAndJoin();
  }

  const std::vector<os::HostPort>& addresses() const { return addresses_; }
  size_t came_to_second() const { return came_to_second_; }
  void WelcomeAndClose(uint32_t lane) {
    thread_.RunSync([&] {
      Welcome(lane, waiting_[lane]);
      waiting_.erase(lane);
    });
  }

 private:
  void Connected(size_t address, os::UniqueFd fd) {
    Greeting::Await(thread_.loop(), LaneSocket(std::move(fd)), {},
                    [this, address](const Result<FrameHeader>& hello, LaneSocket socket) {
                      if (!hello.ok()) return;
                      const auto lane = static_cast<uint32_t>(hello->tag);
                      auto& kept = address == 0 ? welcome_ : waiting_;
                      if (address == 0) Welcome(lane, socket);
                      kept[lane] = std::move(socket);
                      if (address == 1) ++came_to_second_;
                    });
  }
  static void Welcome(uint32_t lane, const LaneSocket& socket) {
    const HeaderBytes header = Encode(FrameHeader{FrameKind::kWelcome, lane});
    ::send(socket.fd(), header.data(), header.size(), MSG_NOSIGNAL);
  }

  os::LoopThread thread_{"owner"};
  std::vector<os::HostPort> addresses_;
  std::vector<std::unique_ptr<os::Acceptor>> acceptors_;
  std::map<uint32_t, LaneSocket> welcome_;
  std::map<uint32_t, LaneSocket> waiting_;
  std::atomic<size_t> came_to_second_{0};
};

uint64_t EndsOf(TcpConnection& connection, const std::string& lane) {
  std::promise<uint64_t> ends;
  connection.Evidence([&](const auto& counters) {
    const std::map<std::string, uint64_t> by_name(counters.begin(), counters.end());
    const auto found = by_name.find(lane + " ended");
    ends.set_value(found == by_name.end() ? 0 : found->second);
  });
  return ends.get_future().get();
}

}  // namespace

TEST_CASE("an address that greets and ends each lane is told rarely, and dialled as rarely") {
  using Told = std::vector<std::pair<std::string, bool>>;  // an address, and whether it answers
  std::promise<Status> made;
  Event closed;
  Event silent_again;
  Told told;
  bool while_passed = false;
  size_t came_meanwhile = 0;
  TwoAddresses owner;
  os::LoopThread home("home");

  const auto connection = std::make_shared<TcpConnection>(ReaderOptions(4, true), home.loop());
  connection->OnClosed([&](const Status&) { closed.Set(); });
  home.RunSync([&] {
    LaneDialer::Plan plan;
    plan.addresses = owner.addresses();
    plan.answered = "127.0.0.1";
    plan.loop_of = [&](uint32_t) -> os::EventLoop& { return home.loop(); };
    std::make_shared<LaneDialer>(connection, home.loop(), std::move(plan))
        ->Start([&](const auto& result) { made.set_value(result.status()); });
  });
  // The second address takes connections and greets none: the others do not wait for long.
  REQUIRE_OK(made.get_future().get());
  connection->OnAddress([&](const std::string& address, const Status& why) {
    told.emplace_back(address, why.ok());
    if (told.size() == 2) {
      home.loop().RunAfter(std::chrono::seconds(2), [&] { while_passed = true; });
    }
    if (told.size() != 3) return;
    came_meanwhile = owner.came_to_second();
    silent_again.Set();
  });
  home.RunSync([] {});  // it has been told that the second one is silent
  WaitUntil("both lanes wait", [&] { return owner.came_to_second() == 2; });
  for (const uint32_t lane : {2, 4}) {
    owner.WelcomeAndClose(lane);
    const std::string name = "lane " + std::to_string(lane);
    WaitUntil(name + " has ended", [&] { return EndsOf(*connection, name) == 1; });
  }
  silent_again.Wait();
  connection->Close({Code::kCancelled, reasons::kCancelled, "the test is over"});
  closed.Wait();
  home.RunSync([&] {
    const std::string second = owner.addresses()[1].ToString();
    CHECK(told == Told{{second, false}, {second, true}, {second, false}});
    CHECK(while_passed);
    CHECK(came_meanwhile == 2);
  });
}

TEST_CASE("a link that is shut down while lanes are dialled keeps nothing") {
  TwoAddresses owner;
  Backend<Link> tcp = tcp::Describe();
  BackendContext context{"reader", Settings(tcp.settings), {}, {"127.0.0.1:0"}};
  context.settings.Set("lanes", 4);
  auto made = tcp.create(context);
  REQUIRE_OK(made);
  std::unique_ptr<Link> link = std::move(*made);
  std::unique_ptr<Dialing> dialing;
  link->Dial("owner", [&](auto dialled) { dialing = std::move(*dialled); });
  auto held = std::make_shared<int>();
  const std::weak_ptr<int> kept = held;
  dialing->Establish("127.0.0.1", Encode(Answer{{1, 2}, 4, false, false, owner.addresses()}),
                     [held = std::move(held)](const auto&) {});
  WaitUntil("two lanes wait", [&] { return owner.came_to_second() == 2; });
  dialing.reset();
  SECTION("by what it is asked") { link->Shutdown(); }
  SECTION("by its end") {}
  link.reset();
  CHECK(kept.expired());
}

}  // namespace lane_dialer_test
