#include "transport/os/sockets/acceptor.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <future>
#include <memory>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/sanitized.h"
#include "tests/support/temp_folder.h"
#include "transport/os/sockets/unix_socket.h"

using namespace onecopy;
using onecopy::testing::TempFolder;

TEST_CASE("connections are handed over non-blocking and close-on-exec") {
  const TempFolder folder;
  auto listener = os::ListenUnix(folder / "s", SOCK_STREAM, 0600, 8);
  REQUIRE_OK(listener);
  std::promise<os::UniqueFd> got;
  os::LoopThread thread("test");
  std::unique_ptr<os::Acceptor> acceptor;
  Status started;
  thread.RunSync([&] {
    acceptor = std::make_unique<os::Acceptor>(
        thread.loop(), std::move(*listener), [&](os::UniqueFd fd) { got.set_value(std::move(fd)); },
        [](const Status&) {});
    started = acceptor->Start();
  });
  REQUIRE_OK(started);
  const auto client = os::ConnectUnix(folder / "s", SOCK_STREAM);
  REQUIRE_OK(client);
  const os::UniqueFd served = got.get_future().get();
  CHECK((::fcntl(served.get(), F_GETFL) & O_NONBLOCK) != 0);
  CHECK((::fcntl(served.get(), F_GETFD) & FD_CLOEXEC) != 0);
  thread.RunSync([&] { acceptor.reset(); });
}

TEST_CASE("a process that runs short of descriptors tells who connects, and recovers") {
  if (onecopy::testing::kAddressSanitizer) {
    ONECOPY_SKIP("UndefinedBehaviorSanitizer needs descriptors to look at memory");
  }
  const TempFolder folder;
  auto listener = os::ListenUnix(folder / "s", SOCK_STREAM, 0600, 8);
  REQUIRE_OK(listener);
  std::promise<Status> failed;
  std::promise<Status> told;
  std::promise<void> connected;
  os::LoopThread thread("test");
  std::unique_ptr<os::Acceptor> acceptor;
  Status started;
  thread.RunSync([&] {
    acceptor = std::make_unique<os::Acceptor>(
        thread.loop(), std::move(*listener), [&](os::UniqueFd) { connected.set_value(); },
        [&](const Status& status) { failed.set_value(status); },
        os::Shortage{8, [&](const os::UniqueFd& fd, const Status& why) {
                       CHECK(::send(fd.get(), "no", 2, MSG_NOSIGNAL) == 2);
                       told.set_value(why);
                     }});
    started = acceptor->Start();
  });
  REQUIRE_OK(started);
  const bool none_left = GENERATE(true, false);
  CAPTURE(none_left);
  os::UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  std::vector<os::UniqueFd> hoard;
  const rlimit few{64, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  while (true) {
    os::UniqueFd more = client.Duplicate();
    if (!more) break;
    hoard.push_back(std::move(more));
  }
  if (!none_left) hoard.pop_back();  // one of those that are kept
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (folder / "s").copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
          0);
  const Status status = failed.get_future().get();
  CHECK(status.code() == Code::kResourceExhausted);
  CHECK(status.remedy().find("LimitNOFILE") != std::string::npos);
  CHECK(told.get_future().get().reason() == reasons::kQuota);
  char word[3] = {};
  CHECK(::recv(client.get(), word, sizeof word, 0) == 2);
  CHECK(::recv(client.get(), word, sizeof word, 0) == 0);
  hoard.clear();
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  const auto next = os::ConnectUnix(folder / "s", SOCK_STREAM);
  REQUIRE_OK(next);
  connected.get_future().get();
  thread.RunSync([&] { acceptor.reset(); });
}
