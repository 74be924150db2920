// Memory handed from daemon to daemon over a Unix socket, and all that may go wrong there.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>

#include "daemon/handover/client.h"
#include "daemon/handover/server.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "transport/os/memory/mapping.h"
#include "transport/os/sockets/unix_socket.h"

namespace onecopy::handover {
namespace {

constexpr std::chrono::milliseconds kPatience{5000};

struct Rig {
  explicit Rig(Server::Limits limits = {}) {
    thread.RunSync([&] { server = std::make_unique<Server>(thread.loop(), limits); });
  }
  ~Rig() {
    thread.RunSync([&] { server.reset(); });
  }
  Result<Address> Offer(const ImportRequest& memory, os::UniqueFd fd = {}) {
    std::promise<Result<Address>> offered;
    thread.loop().Post([&] { offered.set_value(server->Offer(memory, std::move(fd))); });
    return offered.get_future().get();
  }
  os::LoopThread thread{"server"};
  std::unique_ptr<Server> server;
};

ImportRequest Sample() {
  ImportRequest memory;
  memory.form = "cuda-vmm";
  memory.device = "GPU-1";
  memory.bytes = 4000;
  memory.offset = 96;
  memory.allocation_bytes = 4096;
  memory.handle = std::string(64, '\0');
  return memory;
}

TEST_CASE("what is offered is fetched whole, with its descriptor, and once") {
  Rig rig;
  auto memfd = os::SealedMemfd("test", 4096);
  REQUIRE_OK(memfd);
  auto view = os::MapShared(memfd->get(), 4096);
  REQUIRE_OK(view);
  view->data()[96] = std::byte{7};
  const auto address = rig.Offer(Sample(), std::move(*memfd));
  REQUIRE_OK(address);
  const auto fetched = Fetch(*address, kPatience);
  REQUIRE_OK(fetched);
  CHECK(fetched->memory.form == "cuda-vmm");
  CHECK(fetched->memory.device == "GPU-1");
  CHECK(fetched->memory.bytes == 4000);
  CHECK(fetched->memory.offset == 96);
  CHECK(fetched->memory.allocation_bytes == 4096);
  CHECK(fetched->memory.handle == std::string(64, '\0'));
  CHECK(fetched->memory.owner_pid == ::getpid());
  CHECK(fetched->memory.same_pid_namespace);
  REQUIRE(fetched->fd);
  CHECK(fetched->memory.fd == fetched->fd.get());
  CHECK((::fcntl(fetched->fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
  auto mapped = os::MapShared(fetched->fd.get(), 4096);
  REQUIRE_OK(mapped);
  CHECK(mapped->data()[96] == std::byte{7});

  const Status again = Fetch(*address, kPatience).status();
  CHECK(again.code() == Code::kPermissionDenied);
  CHECK(again.reason() == reasons::kGrantExpired);
}

TEST_CASE("a lender in another PID namespace than its client says so") {
  Rig rig;
  ImportRequest memory = Sample();
  memory.same_pid_namespace = false;
  const auto address = rig.Offer(memory);
  REQUIRE_OK(address);
  const auto fetched = Fetch(*address, kPatience);
  REQUIRE_OK(fetched);
  CHECK_FALSE(fetched->memory.same_pid_namespace);
  CHECK_FALSE(fetched->fd);
}

TEST_CASE("a token that nobody gave gets nothing, and takes nothing from others") {
  Rig rig;
  auto address = rig.Offer(Sample());
  REQUIRE_OK(address);
  for (const std::string& token : {std::string("x"), std::string(32, '0'), std::string(200, 'y')}) {
    CHECK(Fetch({address->name, token}, kPatience).status().code() == Code::kPermissionDenied);
  }
  // Nothing, which is no request; and too long to be any.
  CHECK_FALSE(Fetch({address->name, {}}, kPatience).ok());
  CHECK_FALSE(Fetch({address->name, std::string(300, 'z')}, kPatience).ok());
  REQUIRE_OK(Fetch(*address, kPatience));
}

TEST_CASE("an offer ends with its time, and there are only so many") {
  Rig rig({.most_offers = 2, .lifetime = std::chrono::milliseconds(1)});
  const auto address = rig.Offer(Sample());
  REQUIRE_OK(address);
  Status status;
  while ((status = Fetch(*address, kPatience).status()).ok()) {
    // It was fetched in time: offer another one.
    const auto other = rig.Offer(Sample());
    REQUIRE_OK(other);
  }
  CHECK(status.code() == Code::kPermissionDenied);

  Rig few({.most_offers = 2});
  REQUIRE_OK(few.Offer(Sample()));
  const auto second = few.Offer(Sample());
  REQUIRE_OK(second);
  CHECK(few.Offer(Sample()).status().reason() == reasons::kQuota);
  REQUIRE_OK(Fetch(*second, kPatience));
  REQUIRE_OK(few.Offer(Sample()));
}

TEST_CASE("connections that say nothing are closed, and leave room for others") {
  Rig rig({.most_connections = 2, .patience = std::chrono::milliseconds(20)});
  const auto address = rig.Offer(Sample());
  REQUIRE_OK(address);
  std::vector<os::UniqueFd> silent;
  for (int i = 0; i < 2; ++i) {
    auto socket = os::ConnectAbstract(address->name, SOCK_SEQPACKET);
    REQUIRE_OK(socket);
    silent.push_back(std::move(*socket));
  }
  for (const os::UniqueFd& socket : silent) {
    char byte = 0;
    ::fcntl(socket.get(), F_SETFL, 0);  // waits
    CHECK(::recv(socket.get(), &byte, 1, 0) == 0);
  }
  REQUIRE_OK(Fetch(*address, kPatience));
}

TEST_CASE("who does not answer, or answers nonsense, is given up") {
  const std::string name = "onecopy-test-" + std::to_string(::getpid());
  auto listener = os::ListenAbstract(name, SOCK_SEQPACKET, 8);
  REQUIRE_OK(listener);
  // Connected, and never accepted.
  CHECK(Fetch({name, "t"}, std::chrono::milliseconds(20)).status().code() == Code::kUnavailable);
  for (const std::string& answer : {std::string("\xff\xff\xff"), std::string("\x12\x00", 2),
                                    std::string(5000, 'x'), std::string()}) {
    std::future<Status> fetched = std::async(std::launch::async, [&] {
      return Fetch({name, "t"}, kPatience).status();
    });
    os::UniqueFd socket;
    char byte = 0;
    ::fcntl(listener->get(), F_SETFL, 0);  // waits
    // The one that was given up comes first, and has hung up.
    do {
      socket = os::UniqueFd(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
    } while (::recv(socket.get(), &byte, 1, MSG_PEEK) == 0 ||
             ::send(socket.get(), answer.data(), answer.size(), MSG_NOSIGNAL) < 0);
    socket.Reset();
    const Status status = fetched.get();
    INFO(status.ToString());
    CHECK_FALSE(status.ok());
  }
  listener->Reset();
  const Status gone = Fetch({name, "t"}, kPatience).status();
  CHECK(gone.code() == Code::kUnavailable);
  CHECK_FALSE(gone.remedy().empty());
  CHECK_FALSE(Fetch({"", "t"}, kPatience).ok());
  CHECK_FALSE(Fetch({std::string(200, 'n'), "t"}, kPatience).ok());
}

}  // namespace
}  // namespace onecopy::handover
