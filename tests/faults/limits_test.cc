// Daemons that may have little, and clients that take much.
#include <linux/capability.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "tests/cluster/receipts.h"
#include "tests/faults/serving.h"
#include "tests/support/catch.h"
#include "tests/support/sanitized.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/sockets/unix_socket.h"

namespace limits_test {
namespace {

using onecopy::Client;
using onecopy::os::UniqueFd;
using namespace onecopy::testing;

// As an ordinary user, also where this is root.
void LockNothing() {
  const rlimit nothing = {0, 0};
  if (::prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK) != 0 && ::geteuid() == 0) ::_exit(126);
  if (::setrlimit(RLIMIT_MEMLOCK, &nothing) != 0) ::_exit(126);
}

std::function<void()> Limited(__rlimit_resource what, rlim_t most) {
  return [what, most] {
    const rlimit limit = {most, most};
    if (::setrlimit(what, &limit) != 0) ::_exit(126);
  };
}

}  // namespace

TEST_CASE("a daemon that may lock no memory serves, staged paths included") {
  if (kAddressSanitizer) ONECOPY_SKIP("AddressSanitizer lets every mlock succeed");
  Node west("west", {.in_child = LockNothing});
  Node east("east", {.peers = {west.AsPeer()}, .in_child = LockNothing});
  east.WaitForPeer("west");
  west.WaitForPeer("east");
  const Kept kept(east, 3 << 20);
  const Kept there(west, 3 << 20);
  west.Do({"buffer", "create", "b", "--size", "3MiB"});
  for (const char* path : {"tcp-direct", "tcp-bounce", "tcp-staged"}) {
    const Json receipt = east.Do({"cp", "kept", "west:b", "--path", path, "--checksum"});
    CheckReceipt(receipt, {path, 3 << 20, true});
    // What could not be pinned is not called so.
    for (const Json& step : receipt.at("steps")) CHECK(step.at("to") != "pinned");
  }
  kept.CheckUnchanged();
  there.CheckUnchanged();
  // It says what it lacks, and where to get it.
  CHECK(east.Log().find("the limit on locked memory is low") != std::string::npos);
  CHECK(east.Log().find("LimitMEMLOCK=infinity") != std::string::npos);
}

TEST_CASE("a daemon with few descriptors refuses what it cannot take, and recovers") {
  if (kAddressSanitizer)
    ONECOPY_SKIP("UBSan looks at objects through pipes, and errs when there is no descriptor");
  Node east("east", {.in_child = Limited(RLIMIT_NOFILE, 96)});
  const Kept kept(east);
  {
    std::vector<Client> clients;
    onecopy::Status refused;
    while (refused.ok() && clients.size() < 200) {
      auto client = Client::Connect({.run_dir = east.run_dir(),
                                     .program = "greedy",
                                     .timeout = std::chrono::milliseconds(500)});
      refused = client.status();
      if (!client.ok()) break;
      const auto made = client->CreateBuffer(
          {.name = "g" + std::to_string(clients.size()), .bytes = 1, .memory = "host"});
      refused = made.status();
      clients.push_back(*std::move(client));
    }
    INFO(refused.ToString());
    CHECK_FALSE(refused.ok());
    CHECK(refused.message() != "");
    CHECK((refused.code() == onecopy::Code::kResourceExhausted ||
           refused.code() == onecopy::Code::kUnavailable));
    // Those who were there before it may still ask.
    REQUIRE_OK(clients.front().ListBuffers());
    for (size_t i = 0; i < clients.size(); ++i) {
      (void)clients.front().DeleteBuffer("g" + std::to_string(i));
    }
  }
  WaitUntil("the daemon takes clients again", [&] {
    return Client::Connect({.run_dir = east.run_dir(),
                            .program = "test",
                            .timeout = std::chrono::milliseconds(500)})
        .ok();
  });
  kept.CheckUnchanged();
  CheckServes(east);
  CHECK(east.Log().size() < 20'000);
}

TEST_CASE("a daemon that runs out of descriptors stays who it is, and tells its clients at once") {
  if (kAddressSanitizer)
    ONECOPY_SKIP("UBSan looks at objects through pipes, and errs when there is no descriptor");
  Node west("west");
  Node east("east", {.peers = {west.AsPeer()}, .in_child = Limited(RLIMIT_NOFILE, 256)});
  east.WaitForPeer("west");
  west.WaitForPeer("east");
  const Kept kept(east);
  const Kept there(west);
  west.Do({"buffer", "create", "b", "--size", "4096"});
  Client client = east.Connect();
  const std::string domain = Must(client.GetNode("east")).uid_domain;
  REQUIRE(domain.starts_with("loopback "));
  // Connections that say nothing, until one of them is told that there is no room.
  std::vector<UniqueFd> silent;
  std::vector<pollfd> waiting;
  for (int i = 0; i < 250; ++i) {
    auto one = onecopy::os::ConnectUnix(east.run_dir() + "/attach.sock", SOCK_SEQPACKET);
    if (!one.ok()) break;
    waiting.push_back({one->get(), POLLIN, 0});
    silent.push_back(*std::move(one));
  }
  WaitUntil("one is told", [&] { return ::poll(waiting.data(), waiting.size(), 0) > 0; });
  const auto late = Client::Connect({.run_dir = east.run_dir(), .program = "late"});
  INFO(late.status().ToString());
  CHECK(late.status().code() == onecopy::Code::kResourceExhausted);
  CHECK(late.status().reason() == "QUOTA");
  CHECK(late.status().remedy().find("LimitNOFILE") != std::string::npos);
  // It is in the same domain as before, and so are its users: what they could do, they still can.
  CHECK(Must(client.GetNode("east")).uid_domain == domain);
  CHECK(Must(client.GetNode("west")).uid_domain == domain);
  const auto moved = client.RunTransfer(
      {.source = {"", "kept", {}, {}}, .destination = {"west", "b", {}, {}}, .policy = {}});
  REQUIRE_OK(moved);
  REQUIRE_OK(OutcomeOf(*moved));
  silent.clear();
  WaitUntil("the daemon takes clients again",
            [&] { return Client::Connect({.run_dir = east.run_dir(), .program = "test"}).ok(); });
  kept.CheckUnchanged();
  there.CheckUnchanged();
  CheckMoves(east, west);
}

TEST_CASE("a client that never reads its replies is let go, and keeps nobody waiting") {
  Node east("east");
  const Kept kept(east);
  const UniqueFd deaf =
      Must(onecopy::os::ConnectUnix(east.run_dir() + "/attach.sock", SOCK_SEQPACKET));
  const std::string hello(
      "\x0a\x09\x08\x01\x10\x01\x1a\x03"
      "abc",
      11);
  const std::string pass("\x12\x00", 2);  // PassDescriptor, without one: refused, with a reply
  REQUIRE(::send(deaf.get(), hello.data(), hello.size(), MSG_NOSIGNAL) == 11);
  WaitUntil("its replies fill the socket, and it is let go", [&] {
    while (::send(deaf.get(), pass.data(), pass.size(), MSG_NOSIGNAL | MSG_DONTWAIT) > 0) {
    }
    return errno == EPIPE || errno == ECONNRESET;
  });
  kept.CheckUnchanged();
  CheckServes(east);
}

TEST_CASE("a thousand sessions that end leave nothing behind") {
  Node east("east");
  const Kept kept(east);
  CheckServes(east);
  const size_t descriptors = OpenDescriptors(east.process().pid());
  uint64_t memory = 0;
  for (int i = 0; i < 1000; ++i) {
    Client client = east.Connect();
    if (i % 10 == 0) (void)Must(client.CreateHostBuffer("", 4096));
    if (i == 100) memory = ResidentBytes(east.process().pid());
  }
  WaitUntil("their descriptors are closed",
            [&] { return OpenDescriptors(east.process().pid()) <= descriptors; });
  // AddressSanitizer keeps what was freed for a while.
  if (!kAddressSanitizer) {
    CHECK(ResidentBytes(east.process().pid()) < memory + (uint64_t{16} << 20));
  }
  CHECK(east.Do({"buffer", "ls"}).size() == 1);
  kept.CheckUnchanged();
  CheckServes(east);
}
}  // namespace limits_test
