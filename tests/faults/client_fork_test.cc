// A process that has a client forks.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "tests/cluster/receipts.h"
#include "tests/faults/serving.h"
#include "tests/support/catch.h"
#include "tests/support/in_child.h"

namespace client_fork_test {
namespace {

using onecopy::Client;
using onecopy::Code;
using onecopy::HostBuffer;
using namespace onecopy::testing;

bool IsForked(const onecopy::Status& status) {
  return status.code() == Code::kFailedPrecondition && status.reason() == "FORKED" &&
         !status.remedy().empty();
}

onecopy::TransferRequest Piece(const std::string& from, const std::string& to) {
  return {.source = {"", from, 0, 64}, .destination = {"", to}};
}

}  // namespace

TEST_CASE("a child is told at once that the client is its parent's") {
  Node east("east");
  Client client = east.Connect();
  HostBuffer buffer = Filled(client, "a", 4096, 5);
  const HostBuffer other = Must(client.CreateHostBuffer("b", 4096));
  for (int i = 0; i < 3; ++i) Must(client.RunTransfer(Piece("a", "b")));  // with a ring
  CHECK(InChild([&] {
          if (!IsForked(client.Ping())) return 1;
          if (!IsForked(client.RunTransfer(Piece("a", "b")).status())) return 2;
          if (!IsForked(client.StartTransfer(Piece("a", "b")).status())) return 3;
          if (!IsForked(client.ListTransfers().status())) return 4;
          if (!IsForked(client.CreateHostBuffer("c", 1).status())) return 5;
          if (!IsForked(client.GetBuffer("", "a").status())) return 6;
          if (!IsForked(client.AwaitTransfer(onecopy::TransferId("x")).status())) return 7;
          if (!IsForked(Client::Connect({.run_dir = east.run_dir()}).status())) return 8;
          if (client.session().number != 1 || client.node() != "east") return 9;
          if (!IsPayload(buffer.data(), 4096, 5) || buffer.info().name != "a") return 10;
          buffer.data()[0] = std::byte{1};  // the memory is both's
          if (!IsForked(buffer.Close())) return 11;
          return 0;
        }) == 0);
  CHECK(buffer.data()[0] == std::byte{1});
  CHECK(client.session().number == 1);
  CHECK(Must(client.RunTransfer(Piece("a", "b"))).state == onecopy::TransferState::kSucceeded);
}

TEST_CASE("a child's destructors leave the parent's session as it is") {
  Node east("east");
  std::optional<Client> client = east.Connect();
  std::optional<HostBuffer> buffer = Must(client->CreateHostBuffer("a", 4096));
  CHECK(InChild([&] {
          buffer.reset();
          client.reset();
          return 0;
        }) == 0);
  CHECK(Must(client->GetBuffer("", "a")).id == buffer->info().id);
  CHECK(client->session().number == 1);
}

TEST_CASE("a watch of arrivals is its parent's, too, and goes on there") {
  Node east("east");
  Client client = east.Connect();
  const HostBuffer from = Filled(client, "a", 4096, 5);
  const HostBuffer to = Must(client.CreateHostBuffer("b", 4096));
  std::optional<onecopy::ArrivalWatch> watch = Must(client.WatchArrivals("b"));
  std::optional<onecopy::ArrivalWatch> other = Must(client.WatchArrivals("a"));
  CHECK(InChild([&] {
          if (!IsForked(watch->Poll().status())) return 1;
          if (!IsForked(watch->Wait().status())) return 2;
          if (!IsForked(watch->Close())) return 3;
          *watch = std::move(*other);
          watch.reset();
          other.reset();
          return 0;
        }) == 0);
  Must(client.RunTransfer(Piece("a", "b")));
  CHECK(Must(watch->Wait()).arrivals.size() == 1);
  Must(watch->Close());
  Must(other->Close());
}

TEST_CASE("a fork while other threads are in the midst of calls hangs nobody") {
  Node east("east");
  Client client = east.Connect();
  const HostBuffer from = Must(client.CreateHostBuffer("a", 4096));
  const HostBuffer to = Must(client.CreateHostBuffer("b", 4096));
  std::atomic<bool> stop = false;
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        if (!client.RunTransfer(Piece("a", "b")).ok()) ++failed;
        if (!client.ListBuffers().ok()) ++failed;
      }
    });
  }
  int rightly = 0;
  for (int i = 0; i < 20; ++i) {
    rightly += InChild([&] {
                 if (!IsForked(client.Ping())) return 1;
                 const Client mine = std::move(client);
                 return 0;
               }) == 0
                   ? 1
                   : 0;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(rightly == 20);
  CHECK(failed == 0);
}

TEST_CASE("the session ends with the parent's client, although a child lives on") {
  Node east("east");
  std::optional<Client> client = east.Connect();
  std::optional<HostBuffer> buffer = Must(client->CreateHostBuffer("a", 4096));
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ::close(pipe_ends[1]);
    char byte = 0;
    // Until the parent lets it go.
    ::_exit(::read(pipe_ends[0], &byte, 1) < 0 ? 1 : 0);
  }
  ::close(pipe_ends[0]);
  client.reset();
  onecopy::HostBuffer moved = std::move(*buffer);
  Must(moved.Close());
  {
    Client second = east.Connect();
    const HostBuffer kept = Must(second.CreateHostBuffer("b", 1));
  }
  WaitUntil("no buffer is left", [&] { return east.Do({"buffer", "ls"}).empty(); });
  ::close(pipe_ends[1]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
}
}  // namespace client_fork_test
