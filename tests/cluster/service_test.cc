// The daemon under a service manager: what it tells systemd, and how it ends.
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <stdexcept>

#include "tests/support/catch.h"
#include "tests/support/node.h"
#include "transport/os/base/unique_fd.h"

namespace service_test {
namespace {

using namespace onecopy;
using namespace onecopy::testing;

// What systemd listens to.
class NotifySocket {
 public:
  NotifySocket() : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path().c_str(), sizeof address.sun_path - 1);
    REQUIRE(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  }

  std::string path() const { return folder_ / "notify"; }

  // The next message; throws after a minute of silence.
  std::string Read() {
    pollfd wanted = {fd_.get(), POLLIN, 0};
    if (::poll(&wanted, 1, 60'000) != 1) throw std::runtime_error("systemd was told nothing");
    char message[4096];
    const ssize_t bytes = ::recv(fd_.get(), message, sizeof message, 0);
    REQUIRE(bytes > 0);
    return {message, static_cast<size_t>(bytes)};
  }

  // The next message that has `part`.
  std::string ReadUntil(const std::string& part) {
    std::string message;
    while (message.find(part) == std::string::npos) message = Read();
    return message;
  }

 private:
  TempFolder folder_;
  os::UniqueFd fd_;
};

}  // namespace

TEST_CASE("systemd is told when it serves, that it lives, and that it stops") {
  NotifySocket systemd;
  Node east("east", {.environment = {"NOTIFY_SOCKET=" + systemd.path(), "WATCHDOG_USEC=300000"}});
  CHECK(systemd.ReadUntil("READY=1").find("STATUS=Serving: name=east") != std::string::npos);
  for (int i = 0; i < 3; ++i) CHECK(systemd.Read().find("WATCHDOG=1") != std::string::npos);
  east.process().Signal(SIGTERM);
  CHECK(systemd.ReadUntil("STOPPING=1").find("EXTEND_TIMEOUT_USEC=") != std::string::npos);
  CHECK(east.process().Wait() == 0);
}

TEST_CASE("the log's level changes while the daemon runs") {
  Node east("east");
  CHECK(east.Log().find(" debug ") == std::string::npos);
  east.Do({"node", "log-level", "debug"});
  east.Do({"buffer", "create", "a", "--size", "4096"});
  east.Do({"cp", "-", "a"}, "text");
  WaitUntil("something is logged at debug",
            [&] { return east.Log().find(" debug ") != std::string::npos; });
  CHECK(east.Run({"node", "log-level", "loud"}).exit_status == 2);
}

}  // namespace service_test
