// Clients whose daemon has gone attach again, and what they had registered is registered again.
#include <barrier>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/unit/client/attach_fixture.h"

namespace attach_test {

TEST_CASE("threads that find their daemon gone together attach once, and not one by one") {
  constexpr int kThreads = 8;
  Deserted deserted{std::chrono::seconds(2)};
  std::barrier begin(kThreads);
  std::vector<std::future<Status>> calls;
  for (int i = 0; i < kThreads; ++i) {
    calls.push_back(std::async(std::launch::async, [&] {
      begin.arrive_and_wait();
      return deserted.client->Ping();
    }));
  }
  for (std::future<Status>& call : calls) {
    CHECK(call.get().reason() == onecopy::reasons::kDaemonUnreachable);
  }
  const size_t attached = deserted.TakeConnections();
  CHECK(attached >= 1);
  CHECK(attached < kThreads / 2);
}

TEST_CASE("a question about a transfer that no daemon hears is not said to have been asked") {
  Deserted deserted{std::chrono::seconds(2)};
  deserted.stranger.Reset();
  const Status unheard = deserted.client->GetTransfer(onecopy::TransferId("7")).status();
  CHECK(unheard.reason() == onecopy::reasons::kDaemonUnreachable);
}

TEST_CASE("memory that is closed while its client attaches again is ended in the next session") {
  const TempFolder dir;
  ServedCluster daemon(dir.path());
  const ConnectOptions options{.run_dir = dir.path()};
  const auto connection = onecopy::client::Connection::Open(options);
  REQUIRE_OK(connection);
  const auto run_dir =
      onecopy::client::FindRunDir(onecopy::client::RunDirHints::FromEnvironment(dir.path()));
  const auto next = onecopy::client::Session::Open(run_dir, options, 2);
  REQUIRE_OK(next);
  auto fd = os::SealedMemfd("memory", 4096);
  REQUIRE_OK(fd);
  auto mapping = os::MapShared(fd->get(), 4096);
  REQUIRE_OK(mapping);
  onecopy::client::HostMemory memory(std::move(*fd), std::move(*mapping), "memory");
  // As by a thread that attaches, whose session the connection does not have yet.
  REQUIRE_OK(memory.Register(**next));
  daemon.AwaitBuffers(1);
  onecopy::BufferInfo last;
  REQUIRE_OK(onecopy::client::EndRegistration(**connection, memory, &last));
  CHECK(last.name == "memory");
  CHECK(daemon.buffers().empty());
}

TEST_CASE("what a thread had no time to register again is registered by the next one") {
  const TempFolder dir;
  std::optional<ServedCluster> daemon(dir.path());
  const auto connection = Connection::Open({.run_dir = dir.path()});
  REQUIRE_OK(connection);
  std::vector<std::shared_ptr<WatchedMemory>> memories;
  for (const char* name : {"a", "b", "c"}) {
    memories.push_back(std::make_shared<WatchedMemory>(name, [](Session& session) {
      if (session.number() == 1 || !CallLimit::Current()) return onecopy::OkStatus();
      std::this_thread::sleep_until(*CallLimit::Current());
      return Status(Code::kDeadlineExceeded, onecopy::reasons::kDeadline, "too late");
    }));
    REQUIRE_OK(RegisterFirst(**connection, memories.back()));
  }
  daemon.reset();
  daemon.emplace(dir.path());
  {
    const CallLimit limit(CallLimit::Clock::now() + std::chrono::seconds(2));
    REQUIRE_OK((*connection)->Current());
  }
  CHECK((*connection)->registrations().info().lost.size() == 3);
  REQUIRE_OK((*connection)->Current());
  const onecopy::SessionInfo info = (*connection)->registrations().info();
  CHECK(info.number == 2);
  CHECK(info.restored.size() == 3);
  CHECK(info.lost.empty());
  CHECK(daemon->buffers().size() == 3);
}

TEST_CASE("what a thread registers again while another one meets the next daemon is not left out") {
  const TempFolder dir;
  std::optional<ServedCluster> daemon(dir.path());
  const auto connection = Connection::Open({.run_dir = dir.path()});
  REQUIRE_OK(connection);
  std::promise<void> in_hand;
  std::promise<void> go_on;
  const auto memory = std::make_shared<WatchedMemory>("memory", [&](Session& session) {
    if (session.number() != 2) return onecopy::OkStatus();
    if (CallLimit::Current()) {
      std::this_thread::sleep_until(*CallLimit::Current());
      return Status(Code::kDeadlineExceeded, onecopy::reasons::kDeadline, "too late");
    }
    in_hand.set_value();
    go_on.get_future().wait();
    return Status(Code::kUnavailable, onecopy::reasons::kDaemonUnreachable, "gone");
  });
  REQUIRE_OK(RegisterFirst(**connection, memory));
  daemon.reset();
  daemon.emplace(dir.path());
  {
    const CallLimit limit(CallLimit::Clock::now() + std::chrono::seconds(2));
    REQUIRE_OK((*connection)->Current());
  }
  auto first = std::async(std::launch::async, [&] { (void)(*connection)->Current(); });
  in_hand.get_future().wait();
  daemon.reset();
  daemon.emplace(dir.path());
  auto second = std::async(std::launch::async, [&] { return (*connection)->Current().status(); });
  while ((*connection)->registrations().info().number != 3) std::this_thread::yield();
  go_on.set_value();
  first.get();
  REQUIRE_OK(second.get());
  const onecopy::SessionInfo info = (*connection)->registrations().info();
  CHECK(info.lost.empty());
  CHECK(info.restored.size() == 1);
  CHECK(daemon->buffers().size() == 1);
}

TEST_CASE("futures that find their daemon gone attach once between them") {
  constexpr size_t kFutures = 8;
  Deserted deserted{std::chrono::seconds(1)};
  std::vector<onecopy::TransferFuture> futures;
  for (size_t i = 0; i < kFutures; ++i) {
    auto future =
        deserted.client->RunTransferAsync({.source = {"", "a"}, .destination = {"", "b"}});
    REQUIRE_OK(future);
    futures.push_back(*std::move(future));
  }
  for (onecopy::TransferFuture& future : futures) {
    CHECK(future.Get().status().reason() == onecopy::reasons::kDaemonUnreachable);
  }
  const size_t attached = deserted.TakeConnections();
  CHECK(attached >= 1);
  CHECK(attached < kFutures / 2);
}

}  // namespace attach_test
