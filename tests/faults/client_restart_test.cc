// The daemon of a client dies and another one takes its place.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/cluster/receipts.h"
#include "tests/faults/serving.h"
#include "tests/support/catch.h"
#include "transport/os/memory/mapping.h"

namespace client_restart_test {
namespace {

using onecopy::Client;
using onecopy::Code;
using onecopy::HostBuffer;
using onecopy::SessionInfo;
using onecopy::TransferInfo;
using onecopy::TransferState;
using namespace onecopy::testing;

constexpr uint64_t kLarge = uint64_t{256} << 20;

// Threads of this process that copy for RegisterMemory.
int Copiers() {
  int count = 0;
  std::error_code gone;  // a thread that ends meanwhile
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", gone)) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm") >> std::ws, name);
    count += name == "onecopy-copy" ? 1 : 0;
  }
  return count;
}

}  // namespace

TEST_CASE("a client connects again by itself, and its own memory is there again") {
  Node east("east");
  Client client = east.Connect();
  const HostBuffer named = Filled(client, "named", 4096, 7);
  const HostBuffer unnamed = Must(client.CreateHostBuffer("", 4096));
  const std::string old_id = named.info().id;
  CHECK(client.session().number == 1);
  east.Kill();
  CheckFailed(client.Ping(), Code::kUnavailable, "DAEMON_UNREACHABLE");
  CheckFailed(client.ListBuffers().status(), Code::kUnavailable, "DAEMON_UNREACHABLE");
  east.Restart();
  Must(client.Ping());
  const SessionInfo session = client.session();
  CHECK(session.number == 2);
  CHECK(session.lost.empty());
  REQUIRE(session.restored.size() == 2);
  const bool first = session.restored[0].was.name == "named";
  CHECK(session.restored[first ? 0 : 1].was.id == old_id);
  CHECK(session.restored[first ? 0 : 1].now.id == named.info().id);
  CHECK(named.info().id != old_id);
  CHECK(named.info().name == "named");
  CHECK(Contents(east, "named") == Payload(4096, 7));
  const TransferInfo done =
      Must(client.RunTransfer({.source = named.endpoint(), .destination = unnamed.endpoint()}));
  CHECK(done.state == TransferState::kSucceeded);
  CHECK(IsPayload(unnamed.data(), 4096, 7));
  // By the id that it had, it is said what became of it.
  const onecopy::Status stale =
      client.RunTransfer({.source = {"", old_id}, .destination = unnamed.endpoint()}).status();
  CheckFailed(stale, Code::kNotFound, "BUFFER_LOST");
  CHECK(stale.message().find(named.info().id) != std::string::npos);
}

TEST_CASE("what only its owner can register again is told lost, until that is done") {
  Node east("east");
  Client client = east.Connect();
  onecopy::os::UniqueFd fd = Must(onecopy::os::SealedMemfd("mine", 4096));
  Must(client.RegisterMemfd("mine", fd.get(), 0, 4096));
  const HostBuffer other = Must(client.CreateHostBuffer("other", 4096));
  east.Kill();
  east.Restart();
  // Nothing had been sent, so that this is no failure of the call itself.
  const onecopy::TransferRequest request{.source = {"", "mine"}, .destination = other.endpoint()};
  CheckFailed(client.StartTransfer(request).status(), Code::kNotFound, "BUFFER_LOST");
  CheckFailed(client.SumBuffer({"", "mine"}).status(), Code::kNotFound, "BUFFER_LOST");
  CheckFailed(client.GetBuffer("east", "mine").status(), Code::kNotFound, "BUFFER_LOST");
  const onecopy::TransferRequest further{.source = other.endpoint(),
                                         .destination = other.endpoint(),
                                         .more_sources = {{"", "mine"}},
                                         .ranges = {{{0, 8, 0, 1}, {8, 8, 0, 1}, 1, 0}}};
  CheckFailed(client.StartTransfer(further).status(), Code::kNotFound, "BUFFER_LOST");
  SessionInfo session = client.session();
  REQUIRE(session.lost.size() == 1);
  CHECK(session.lost[0].was.name == "mine");
  CHECK(session.lost[0].why.reason() == "SESSION_LOST");
  Must(client.RegisterMemfd("mine", fd.get(), 0, 4096));
  CHECK(client.session().lost.empty());
  CHECK(Must(client.RunTransfer({.source = {"", "mine"}, .destination = other.endpoint()})).state ==
        TransferState::kSucceeded);
}

TEST_CASE("a name that somebody took meanwhile stays that one's") {
  Node east("east");
  Client client = east.Connect();
  const HostBuffer mine = Must(client.CreateHostBuffer("wanted", 4096));
  east.Kill();
  east.Restart();
  east.Do({"buffer", "create", "wanted", "--size", "64KiB"});
  CHECK(Must(client.GetBuffer("", "wanted")).bytes == 65536);
  const SessionInfo session = client.session();
  REQUIRE(session.lost.size() == 1);
  CHECK(session.lost[0].why.reason() == "NAME_TAKEN");
  CHECK(session.restored.empty());
}

TEST_CASE("what could not be registered again is tried anew when it is named") {
  Node east("east");
  Client client = east.Connect();
  const HostBuffer mine = Filled(client, "wanted", 4096, 9);
  const std::string old_id = mine.info().id;
  east.Kill();
  east.Restart();
  east.Do({"buffer", "create", "wanted", "--size", "64KiB"});
  CheckFailed(client.SumBuffer(mine.endpoint()).status(), Code::kNotFound, "BUFFER_LOST");
  REQUIRE(client.session().lost.size() == 1);
  east.Do({"buffer", "rm", "wanted"});
  const onecopy::Status stale = client.SumBuffer(mine.endpoint()).status();
  CheckFailed(stale, Code::kNotFound, "BUFFER_LOST");
  CHECK(stale.message().find(mine.info().id) != std::string::npos);
  CHECK(mine.info().id != old_id);
  CHECK(client.session().lost.empty());
  CHECK(client.session().restored.size() == 1);
  CHECK(Contents(east, "wanted") == Payload(4096, 9));
  Must(client.SumBuffer(mine.endpoint()));
}

TEST_CASE("what could not be registered again comes back with a later session") {
  Node east("east");
  Client client = east.Connect();
  const HostBuffer mine = Filled(client, "wanted", 4096, 9);
  east.Kill();
  east.Restart();
  east.Do({"buffer", "create", "wanted", "--size", "64KiB"});
  Must(client.Ping());
  REQUIRE(client.session().lost.size() == 1);
  east.Kill();
  east.Restart();
  Must(client.Ping());
  CHECK(client.session().number == 3);
  CHECK(client.session().lost.empty());
  CHECK(Contents(east, "wanted") == Payload(4096, 9));
  Must(client.SumBuffer(mine.endpoint()));
}

TEST_CASE("a buffer that is closed by the first call after a restart is registered no more") {
  Node east("east");
  Client client = east.Connect();
  HostBuffer mine = Must(client.CreateHostBuffer("mine", 4096));
  HostBuffer unnamed = Must(client.CreateHostBuffer("", 4096));
  east.Kill();
  east.Restart();
  Must(mine.Close());  // it went with the daemon before, and no new one is asked
  CHECK(client.session().number == 1);
  Must(client.Ping());
  CHECK(client.session().number == 2);
  Must(unnamed.Close());  // was registered again
  CHECK(client.session().lost.empty());
  CHECK(Must(client.ListBuffers()).empty());
}

TEST_CASE("a transfer under way when the daemon dies fails once, and the next one runs") {
  Pair pair(kSlowLanes);
  Client client = pair.east.Connect();
  Client other = pair.west.Connect();
  const HostBuffer from = Filled(client, "from", kLarge, 3);
  const HostBuffer to = Must(other.CreateHostBuffer("to", kLarge));
  const TransferInfo started =
      Must(client.StartTransfer({.source = from.endpoint(), .destination = to.endpoint()}));
  std::promise<void> watched;
  std::once_flag once;
  onecopy::Status outcome;
  std::thread waiting([&] {
    const auto on_update = [&](const TransferInfo&) {
      std::call_once(once, [&] { watched.set_value(); });
    };
    outcome = client.AwaitTransfer(started.id, on_update).status();
  });
  watched.get_future().wait();
  pair.east.Kill();
  waiting.join();
  CheckFailed(outcome, Code::kUnavailable, "SESSION_LOST");
  pair.east.Restart();
  const onecopy::Status unknown = client.GetTransfer(started.id).status();
  CheckFailed(unknown, Code::kNotFound, "TRANSFER_NOT_FOUND");
  CHECK(unknown.message().find("since this client connected") != std::string::npos);
  const HostBuffer here = Must(client.CreateHostBuffer("here", kLarge));
  CHECK(
      Must(client.RunTransfer({.source = from.endpoint(), .destination = here.endpoint()})).state ==
      TransferState::kSucceeded);
  CHECK(IsPayload(here.data(), kLarge, 3));
}

TEST_CASE("several threads that meet a new daemon connect once") {
  Node east("east");
  Client client = east.Connect();
  const HostBuffer kept = Must(client.CreateHostBuffer("kept", 4096));
  east.Kill();
  east.Restart();
  std::vector<std::thread> threads;
  std::atomic<int> served = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      if (client.GetBuffer("", "kept").ok()) ++served;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(served == 8);
  CHECK(client.session().number == 2);
}

TEST_CASE("memory is let go of by a delete that finds no daemon") {
  Node east("east");
  Client client = east.Connect();
  std::vector<std::byte> memory(4096);
  const std::string id = Must(client.RegisterMemory("mine", memory.data(), memory.size())).id;
  REQUIRE(Copiers() > 0);
  east.Kill();
  CheckFailed(client.DeleteBuffer(id, true), Code::kUnavailable, "DAEMON_UNREACHABLE");
  WaitUntil("no thread could carry out what was ordered", [] { return Copiers() == 0; });
  CheckFailed(client.DeleteBuffer(id, true), Code::kUnavailable, "DAEMON_UNREACHABLE");
}

TEST_CASE("memory is let go of with its session, also where a watch keeps that") {
  Node east("east");
  Client client = east.Connect();
  std::vector<std::byte> memory(4096);
  Must(client.RegisterMemory("mine", memory.data(), memory.size()));
  const onecopy::ArrivalWatch watch = Must(client.WatchArrivals("mine"));
  REQUIRE(Copiers() > 0);
  east.Kill();
  east.Restart();
  CheckFailed(client.DeleteBuffer("mine", true), Code::kNotFound, "BUFFER_LOST");
  WaitUntil("no thread could carry out what was ordered", [] { return Copiers() == 0; });
  Must(client.RegisterMemory("mine", memory.data(), memory.size()));  // by the new session
  CHECK(Copiers() > 0);
  Must(client.DeleteBuffer("mine", true));
}
}  // namespace client_restart_test
