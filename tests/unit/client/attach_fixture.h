// What tests of attaching share: sockets that are no daemon's, and memory that is watched while it
// is registered.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "client/lib/attach/attach.h"
#include "client/lib/session/connection.h"
#include "client/lib/session/registered_memory.h"
#include "onecopy/client.h"
#include "tests/support/catch.h"
#include "tests/support/served_cluster.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/client/client_fixture.h"
#include "transport/os/memory/mapping.h"
#include "transport/os/sockets/unix_socket.h"

namespace attach_test {

using onecopy::Client;
using onecopy::Code;
using onecopy::ConnectOptions;
using onecopy::Status;
using onecopy::client::CallLimit;
using onecopy::client::Connection;
using onecopy::client::Session;
using onecopy::testing::ServedCluster;
using onecopy::testing::TempFolder;

namespace os = onecopy::os;
namespace v1 = onecopy::v1;

// A listener of its own at attach.sock.
inline os::UniqueFd Listen(const TempFolder& dir, int type) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, (dir / "attach.sock").c_str());
  os::UniqueFd listener(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(listener.get(), 8) == 0);
  return listener;
}

// A client whose daemon has ended, and a stranger at its socket, who takes connections and is
// silent.
struct Deserted {
  explicit Deserted(std::chrono::milliseconds timeout) {
    std::optional<ServedCluster> daemon(dir.path());
    client.emplace(onecopy::testing::ConnectTo(dir.path(), {.timeout = timeout}));
    daemon.reset();
    ::unlink((dir / "attach.sock").c_str());
    stranger = Listen(dir, SOCK_SEQPACKET);
  }

  // How many have connected to the stranger since the last call.
  size_t TakeConnections() const {
    REQUIRE(::fcntl(stranger.get(), F_SETFL, O_NONBLOCK) == 0);
    size_t count = 0;
    while (os::UniqueFd(::accept(stranger.get(), nullptr, nullptr))) ++count;
    return count;
  }

  TempFolder dir;
  std::optional<Client> client;
  os::UniqueFd stranger;
};

// Memory whose registrations the test looks at before they are made, and, once they have been,
// before they are told.
class WatchedMemory final : public onecopy::client::RegisteredMemory {
 public:
  using Before = std::function<Status(Session& session)>;
  using After = std::function<Status()>;
  WatchedMemory(const std::string& name, Before before, After after = onecopy::OkStatus)
      : RegisteredMemory(name, kBytes), before_(std::move(before)), after_(std::move(after)) {}

 private:
  static constexpr uint64_t kBytes = 4096;

  onecopy::Result<onecopy::BufferInfo> RegisterAs(Session& session,
                                                  v1::RegisterBufferRequest request) override {
    ONECOPY_ASSIGN_OR_RETURN(const os::UniqueFd fd, os::SealedMemfd("memory", kBytes));
    ONECOPY_ASSIGN_OR_RETURN(const uint64_t handle, session.attach().PassDescriptor(fd.get()));
    request.mutable_memfd()->set_fd_handle(handle);
    ONECOPY_RETURN_IF_ERROR(before_(session));
    onecopy::Result<onecopy::BufferInfo> made = RegisterIn(session, std::move(request));
    ONECOPY_RETURN_IF_ERROR(after_());
    return made;
  }

  const Before before_;
  const After after_;
};

}  // namespace attach_test
