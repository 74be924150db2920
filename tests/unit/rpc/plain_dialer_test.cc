// Connections without TLS to a name that has several addresses.
#include "daemon/rpc/outgoing/plain_dialer.h"

#include <poll.h>
#include <sys/socket.h>

#include <future>
#include <thread>

#include "tests/support/catch.h"

namespace plain_dialer_test {
namespace {

using namespace onecopy;
using rpc::PlainDialer;

std::vector<os::HostPort> addresses;
Result<std::vector<os::HostPort>> Resolve(const os::HostPort& /*where*/) { return addresses; }

// Takes connections as the kernel does, and says nothing; unless it is told to.
class Listener {
 public:
  Listener() : socket_(*os::ListenTcp({"127.0.0.1", 0}, 8)) {}
  os::HostPort address() const { return *os::LocalAddress(socket_.get()); }
  // To the next one who connects.
  void Speak() {
    speaker_ = std::jthread([this] {
      pollfd comes{socket_.get(), POLLIN, 0};
      ::poll(&comes, 1, -1);
      taken_ = os::UniqueFd(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      (void)!::send(taken_.get(), "x", 1, MSG_NOSIGNAL);
    });
  }

 private:
  os::UniqueFd socket_;
  os::UniqueFd taken_;
  std::jthread speaker_;
};

Result<os::UniqueFd> Dial(PlainDialer& dialer, const std::string& where = "a-name:7701") {
  std::promise<Result<os::UniqueFd>> promise;
  dialer.Dial(where,
              [&promise](Result<os::UniqueFd> outcome) { promise.set_value(std::move(outcome)); });
  return promise.get_future().get();
}

}  // namespace

TEST_CASE("a silent address keeps no other one of its name from being tried") {
  Listener silent;
  Listener another;
  Listener speaks;
  addresses = {silent.address(), another.address(), speaks.address()};
  speaks.Speak();
  PlainDialer dialer(&Resolve);
  const Result<os::UniqueFd> connected = Dial(dialer);
  INFO(connected.status().ToString());
  REQUIRE(connected.ok());
  CHECK(os::PeerAddress(connected->get())->ToString() == speaks.address().ToString());
}

TEST_CASE("of several addresses a silent one keeps no other one from being tried") {
  Listener silent;
  Listener speaks;
  speaks.Speak();
  PlainDialer dialer;
  const Result<os::UniqueFd> connected =
      Dial(dialer, os::ToString({silent.address(), speaks.address()}));
  INFO(connected.status().ToString());
  REQUIRE(connected.ok());
  CHECK(os::PeerAddress(connected->get())->ToString() == speaks.address().ToString());
}

TEST_CASE("where none of the addresses speaks, that is said once all have had their time") {
  Listener silent;
  Listener another;
  addresses = {silent.address(), another.address()};
  PlainDialer dialer(&Resolve);
  CHECK(Dial(dialer).status().code() == Code::kDeadlineExceeded);
  addresses = {};
  CHECK(Dial(dialer).status().code() == Code::kUnavailable);
}

}  // namespace plain_dialer_test
